"""A message of a channel, in place."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ._closing import OfChannel
from ._fds import is_finalizing
from ._json import parse_json
from ._protocol import FLAG_JSON
from ._ring_message import Taken
from .arrays import Array
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._messages import Messages


class Message(OfChannel, Taken):
    """A message in place. Its data stay as they are until `release()`, which `with` calls.

    `sequence` counts messages from 0. `missed` counts those that this reader lost between the
    one before and this one. `timestamp_ms` is Unix time in milliseconds, of the commit.
    `byte_length` is in bytes. `meta` are the bytes that came with it.
    """

    __slots__ = ("_data", "_reader")

    _reader: Messages
    _data: memoryview

    @property
    def shape(self) -> tuple[int, ...]:
        own = self.own_shape
        return self._reader._parts.facts.shape if own is None else own

    @property
    def json(self) -> Any:
        """The meta as the value that was given; None if it is bytes, or there is none.

        Raises CHANNEL_CORRUPT if the writer has said that it is JSON, and it is not.
        """
        if not self.flags & FLAG_JSON:
            return None
        try:
            return parse_json(self.meta)
        except ValueError as wrong:
            raise CudaIpcError(
                "CHANNEL_CORRUPT",
                f'Cannot read the meta of a message of channel "{self._reader.name}": '
                f"its {len(self.meta)} bytes are not JSON",
            ) from wrong

    @property
    def data(self) -> memoryview:
        """The bytes in place, for reading. They can be used until `release()`.

        Raises UNSUPPORTED on a GPU, CLOSED.
        """
        if self.closed:
            closed(f'use a message of channel "{self._reader.name}"')
        self.lend()
        try:
            return self._data
        except AttributeError:
            self._data = self._reader._bytes_of(self)
            return self._data

    @property
    def array(self) -> Array:
        """The message as an array in place, for reading. It closes with the message."""
        reader = self._reader
        if self.closed:
            closed(f'use a message of channel "{reader.name}"')
        return reader._parts.arrays.array(self, self.position % reader._slots, self.own_shape)

    def numpy(self) -> Any:
        """A NumPy view in place. Let go of it before `release()`."""
        return self.array.numpy()

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def closed(self) -> bool:
        return self.hold.returned and not getattr(self.hold, "is_open", False)

    def lend(self) -> None:
        """Notes that the program has a view. It may use that although it drops the message."""
        self.hold.is_lent = True

    def __del__(self) -> None:
        # A message that was not taken in the end has no hold, or nobody to give it back to.
        with contextlib.suppress(AttributeError):
            hold = self.hold
            if not hold.returned and not hold.is_lent and not is_finalizing():
                self._reader.drop(self)

    @property
    def ready(self) -> bool:
        """Whether its data are there. Only with a stream does a message come before them.

        Raises PEER_GONE if its writer died before: what was computed from it is worthless. It can
        still be asked after `release()`, and after the reader was closed.
        """
        return self._reader._is_ready(self)

    def release(self, *, stream: Any = None) -> None:
        """Gives the slot back to the writer. The second time it does nothing.

        The writer gets it once `stream`, by default the reader's, has done its work so far. Without
        a stream it gets it at once; on a GPU the call then waits for all work of this process's
        context. Raises TypeError, ValueError, and the errors of the GPU.
        """
        if self.returned:
            self.hold.is_open = False
            return
        self._reader._release(self, stream)

    async def release_async(self, *, stream: Any = None) -> None:
        """As `release`, for asyncio. If the task is cancelled, the slot is given back later."""
        if self.returned:
            self.hold.is_open = False
            return
        await self._reader._release_async(self, stream)

    async def __aenter__(self) -> Message:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release_async()

    def __enter__(self) -> Message:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Message {self.sequence} of {self._reader.name!r}>"
