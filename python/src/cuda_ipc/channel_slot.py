"""A slot of a channel that was loaned to be filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._closing import OfChannel
from ._data import byte_view, let_go
from ._fds import is_finalizing
from ._message_format import size_of, too_large
from ._waiting import to_its_end
from .arrays import Array
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._cuda_streams import Stream
    from ._slot_loans import SlotLoans
    from ._waiting import SlotCopy


class Slot(OfChannel):
    """A loaned slot. Fill it, then `commit()`. Leaving `with` without that gives it back."""

    __slots__ = (
        "__weakref__",
        "_array",
        "_data",
        "_is_dropped",
        "_is_open",
        "_slot",
        "_stream",
        "_writer",
    )

    def __init__(
        self, writer: SlotLoans, slot: int, is_dropped: bool, stream: Stream | None
    ) -> None:
        self._writer = writer
        self._slot = slot
        self._is_dropped = is_dropped
        # The stream that fills it.
        self._stream = stream
        self._array: Array | None = None
        self._data: memoryview | None = None
        self._is_open = True

    @property
    def name(self) -> str:
        return self._writer.name

    @property
    def closed(self) -> bool:
        return not self._is_open

    @property
    def will_be_dropped(self) -> bool:
        """True if no reader will see it: all slots were taken, and `when_full` is drop-newest."""
        return self._is_dropped

    @property
    def array(self) -> Array:
        """The whole slot as an array to fill. It closes with the slot."""
        self._check_open("use")
        if self._array is None:
            self._array = self._writer._parts.arrays.array(self, self._slot, None)
        return self._array

    @property
    def data(self) -> memoryview:
        """The whole slot as bytes to fill. Raises UNSUPPORTED on a GPU."""
        self._check_open("use")
        if self._data is None:
            parts = self._writer._parts
            buffer = parts.memory.buffer
            if buffer is None:
                raise CudaIpcError(
                    "UNSUPPORTED",
                    f'Cannot give the bytes of channel "{self.name}": it lies on a GPU; use '
                    "slot.array",
                )
            start = self._slot * parts.facts.slot_stride
            self._data = buffer[start : start + parts.facts.slot_bytes]
        return self._data

    def commit(
        self,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        byte_length: int | None = None,
        *,
        stream: Any = None,
    ) -> int | None:
        """Sends the message. Returns its sequence; None if it was dropped.

        `meta` is bytes, or a value that travels as JSON. `shape`, in elements of the channel's
        dtype, or `byte_length` is for a message that does not fill its slot.

        The message is ready once `stream`, by default that of the loan, has done its work so far.
        Without a stream it is ready at once; on a GPU the call then waits for all work of this
        process's context. Raises CLOSED, MESSAGE_TOO_LARGE, TypeError, ValueError, and the errors
        of the GPU; after one of these but CLOSED the slot can be committed again.
        """
        return self._commit(meta, shape, byte_length, stream, is_there=False)

    async def commit_async(
        self,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        byte_length: int | None = None,
        *,
        stream: Any = None,
    ) -> int | None:
        """As `commit`, for asyncio. If the task is cancelled, the slot can be committed again."""
        self._check_open("commit")
        writer = self._writer
        if stream is None and self._stream is None and writer._is_on_gpu:
            writer._link.check(f'write to channel "{self.name}"')
            await to_its_end(writer._parts.memory.finish)
        return self._commit(meta, shape, byte_length, stream)

    def _commit(
        self,
        meta: Any,
        shape: int | Sequence[int] | None,
        byte_length: int | None,
        stream: Any,
        is_there: bool = True,
    ) -> int | None:
        """As `commit`. `is_there` says that this process has written all but by the stream."""
        self._check_open("commit")
        return self._writer._commit(self, meta, shape, byte_length, stream, is_there)

    def close(self) -> None:
        """Gives the slot back without a message. After `commit` it does nothing."""
        if self._is_open:
            self._end()
            self._writer._abort(self)

    def _write(self, data: Any) -> int:
        """Copies bytes to the start of the slot, and returns how many. Raises MESSAGE_TOO_LARGE."""
        self._check_open("fill")
        parts = self._writer._parts
        dtype = parts.facts.dtype
        # A channel of bytes takes the bytes of any values.
        view = byte_view(data, None if dtype.name == "uint8" else dtype)
        if len(view) > parts.facts.slot_bytes:
            raise too_large(self.name, len(view), parts.facts.slot_bytes, "bytes")
        parts.memory.write(self._slot * parts.facts.slot_stride, view)
        return len(view)

    def _check_filled(self, written: int, shape: int | Sequence[int] | None) -> None:
        """Other readers would see what an older message has left. Raises ValueError."""
        if shape is None:
            return
        _, size = size_of(self.name, self._writer._parts.facts, shape, None)
        if size != written:
            raise ValueError(f"{written} bytes for a message of shape {shape!r} and {size} bytes")

    def _leaves(self, copy: SlotCopy[Any], failure: BaseException) -> None:
        """Nobody awaits this copy into the slot any more."""
        self._writer._leaves(copy, failure)

    def _may_write(self) -> bool:
        """False while a stream of a reader may still use it, which the CPU would overtake.

        Raises CLOSED.
        """
        self._check_open("fill")
        return self._stream is None or self._is_dropped or self._writer._order(None)

    def _end(self) -> None:
        self._is_open = False
        self._array = None
        if self._data is not None:
            let_go(self._data)

    def _check_open(self, verb: str) -> None:
        if not self._is_open:
            raise CudaIpcError(
                "CLOSED",
                f'Cannot {verb} a slot of channel "{self.name}": it was committed or given back',
            )

    def __del__(self) -> None:
        if getattr(self, "_is_open", False) and not is_finalizing():
            self.close()

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
