"""A message of a channel, in place."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from ._channel_parts import slot_layout
from ._protocol import FLAG_JSON
from ._ring_message import Taken
from .arrays import Array
from .errors import closed

if TYPE_CHECKING:
    from .channel_reader import ChannelReader


class Message(Taken):
    """A message in place. Its data stay as they are until `release()`, which `with` calls.

    `sequence` counts messages from 0. `missed` counts those that this reader lost between the
    one before and this one. `timestamp_ms` is Unix time in milliseconds, of the commit.
    `byte_length` is in bytes. `meta` are the bytes that came with it.
    """

    __slots__ = ("_data", "_reader")

    _reader: ChannelReader
    _data: memoryview

    @property
    def shape(self) -> tuple[int, ...]:
        own = self.own_shape
        return self._reader.shape if own is None else own

    @property
    def json(self) -> Any:
        """The meta as the value that was given; None if it is bytes, or there is none."""
        return json.loads(self.meta) if self.flags & FLAG_JSON else None

    @property
    def data(self) -> memoryview:
        """The bytes in place, for reading. They can be used until `release()`.

        Raises UNSUPPORTED on a GPU, CLOSED.
        """
        if self.returned:
            closed(f'use a message of channel "{self._reader.name}"')
        try:
            return self._data
        except AttributeError:
            self._data = self._reader._bytes_of(self)
            return self._data

    @property
    def array(self) -> Array:
        """The message as an array in place, for reading. It closes with the message."""
        reader = self._reader
        if self.returned:
            closed(f'use a message of channel "{reader.name}"')
        layout = slot_layout(reader._parts.facts, self.position % reader.slots, self.own_shape)
        return Array(self, reader._parts.memory, layout)

    def numpy(self) -> Any:
        """A NumPy view in place. Let go of it before `release()`."""
        return self.array.numpy()

    @property
    def name(self) -> str:
        return self._reader.name

    @property
    def closed(self) -> bool:
        return self.returned

    def release(self) -> None:
        """Gives the slot back to the writer. The second time it does nothing.

        On a GPU it waits for the work of this process's context first.
        """
        if self.returned:
            return
        reader = self._reader
        # A view that is left sees later messages from here on.
        with contextlib.suppress(AttributeError, BufferError):
            self._data.release()
        if reader._is_on_gpu:
            reader._parts.memory.finish()
        reader._ring.release(self)

    def __enter__(self) -> Message:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Message {self.sequence} of {self._reader.name!r}>"
