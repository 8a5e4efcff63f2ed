"""Writes to a channel: one slot at a time is lent, filled and committed."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._channel_parts import WriterParts, slot_layout
from ._deadline import Deadline
from ._fds import is_finalizing
from ._layout import checked_shape
from ._protocol import FLAG_JSON, RANK_MAX, WRITER_AWAITED, WRITER_CLOSED
from ._ring_words import DROPPED
from ._ring_writer import RingWriter
from ._waiting import hear, hear_async, pauses
from .arrays import Array, byte_view
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._link import Link


class Slot:
    """A slot that was lent. Fill it, then `commit()`. Leaving `with` without that gives it back."""

    __slots__ = ("_array", "_data", "_is_dropped", "_is_open", "_slot", "_writer")

    def __init__(self, writer: ChannelWriter, slot: int, is_dropped: bool) -> None:
        self._writer = writer
        self._slot = slot
        self._is_dropped = is_dropped
        self._is_open = True
        self._array: Array | None = None
        self._data: memoryview | None = None

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
            parts = self._writer._parts
            self._array = Array(self, parts.memory, slot_layout(parts.facts, self._slot, None))
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
    ) -> int | None:
        """Sends the message. Returns its sequence; None if it was dropped.

        `meta` is bytes, or a value that travels as JSON. `shape`, in elements of the channel's
        dtype, or `byte_length` is for a message that does not fill its slot. On a GPU it waits for
        the work of this process's context first. Raises CLOSED, MESSAGE_TOO_LARGE, ValueError;
        after one of these but CLOSED the slot can be committed again.
        """
        self._check_open("commit")
        return self._writer._commit(self, meta, shape, byte_length)

    def close(self) -> None:
        """Gives the slot back without a message. After `commit` it does nothing."""
        if self._is_open:
            self._end()
            self._writer._lent = None

    def _end(self) -> None:
        self._is_open = False
        self._array = None
        if self._data is not None:
            # A view that is left sees later messages from here on.
            with contextlib.suppress(BufferError):
                self._data.release()

    def _check_open(self, verb: str) -> None:
        if not self._is_open:
            raise CudaIpcError(
                "CLOSED",
                f'Cannot {verb} a slot of channel "{self.name}": it was committed or given back',
            )

    def __enter__(self) -> Slot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChannelWriter:
    """The writer of a channel. One thread at a time may use it."""

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        parts: WriterParts,
        inspect: Callable[[], Mapping[int, str]],
    ) -> None:
        self.name = name
        self._link = link
        self._held = held
        self._parts = parts
        self._inspect = inspect
        self._lent: Slot | None = None
        self._is_awaited = False
        self._ring = RingWriter(
            name, parts.control, parts.facts, parts.first_position, parts.pages, parts.bells
        )
        self._dropped = 0
        held.on_lost = parts.room.ring
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def dtype(self) -> str:
        return self._parts.facts.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a message that fills its slot."""
        return self._parts.facts.shape

    @property
    def slots(self) -> int:
        return self._parts.facts.slots

    @property
    def when_full(self) -> str:
        return self._parts.facts.when_full

    @property
    def readers(self) -> int:
        """How many readers are attached now."""
        return 0 if self._closed else len(self._ring.live_places())

    @property
    def committed(self) -> int:
        """Messages that were committed, by this writer and those before it."""
        return self._ring.sequence

    @property
    def dropped(self) -> int:
        """Messages that were dropped because no slot was free."""
        return self._dropped if self._closed else self._parts.control.longs[DROPPED]

    def try_loan(self) -> Slot | None:
        """Lends a slot at once. None if none is free; with drop-newest the message then counts
        as dropped. Raises CLOSED, IN_USE."""
        self._check_may_loan("lend a slot of")
        slot = self._reserve()
        if slot is None and self.when_full == "drop-newest":
            self._ring.drop()
        return slot

    def loan(self, timeout: float | None = None) -> Slot:
        """Lends a slot. If none is free, `when_full` decides.

        With wait, it waits for the slowest reader; with drop-oldest, only if readers hold every
        slot; with drop-newest the slot is one that no reader sees. `timeout` is in seconds; None
        waits without a limit. Raises TIMEOUT, which names the slowest reader; CHANNEL_FULL with
        error; IN_USE if another slot is lent; HUB_GONE, CLOSED.
        """
        self._check_may_loan("lend a slot of")
        slot = self._reserve() or self._without_room()
        if slot is not None:
            return slot
        deadline = Deadline(f'write to channel "{self.name}"', timeout)
        self._is_awaited = True
        try:
            for pause in self._until_room(deadline):
                if pause is not None:
                    time.sleep(pause)
                else:
                    hear(self._parts.room, self._link, deadline)
                slot = self._after_sleep()
                if slot is not None:
                    return slot
            raise AssertionError("a wait for room ends with a slot or an error")
        finally:
            self._end_wait()

    async def loan_async(self, timeout: float | None = None) -> Slot:
        """As `loan`, for asyncio."""
        import asyncio

        self._check_may_loan("lend a slot of")
        slot = self._reserve() or self._without_room()
        if slot is not None:
            return slot
        deadline = Deadline(f'write to channel "{self.name}"', timeout)
        self._is_awaited = True
        try:
            for pause in self._until_room(deadline):
                if pause is not None:
                    await asyncio.sleep(pause)
                else:
                    await hear_async(self._parts.room, self._link, deadline)
                slot = self._after_sleep()
                if slot is not None:
                    return slot
            raise AssertionError("a wait for room ends with a slot or an error")
        finally:
            self._end_wait()

    def send(
        self,
        data: Any,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> int | None:
        """Copies `data` into a slot and commits it. Returns its sequence; None if it was dropped.

        `data` is bytes, or an object with a C-contiguous buffer. Without `shape`, a message that
        does not fill its slot is one row of elements. Raises as `loan` and `Slot.commit`.
        """
        with self.loan(timeout) as slot:
            return self._fill(slot, data, meta, shape)

    async def send_async(
        self,
        data: Any,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> int | None:
        """As `send`, for asyncio."""
        with await self.loan_async(timeout) as slot:
            return self._fill(slot, data, meta, shape)

    def wait_for_readers(self, count: int, timeout: float | None = None) -> None:
        """Waits until the channel has this many readers. Raises TIMEOUT, HUB_GONE, CLOSED."""
        deadline = Deadline(f'wait for {count} readers of channel "{self.name}"', timeout)
        if not 0 <= count <= self._parts.facts.readers_max:
            raise ValueError(f"count must be from 0 to {self._parts.facts.readers_max}")
        for pause in pauses():
            self._check_open("wait for readers of")
            if self.readers >= count:
                return
            deadline.check(lambda: f"{self.readers} of {count} came")
            self._check_link()
            time.sleep(pause)

    def close(self) -> None:
        """Ends the channel. With `when_writer_gone` wait, it waits for the next writer instead."""
        gone = self._parts.facts.when_writer_gone
        self._close(WRITER_CLOSED if gone == "end" else WRITER_AWAITED)

    def end(self) -> None:
        """Ends the channel, also with `when_writer_gone` wait."""
        self._close(WRITER_CLOSED)

    def _close(self, state: int) -> None:
        if self._closed:
            return
        if self._lent is not None:
            self._lent.close()
        self._dropped = self.dropped
        self._closed = True
        self._held.on_lost = None
        if not self._link.forked:
            self._ring.leave(state)
        self._parts.close()
        self._held.release()

    def __enter__(self) -> ChannelWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not is_finalizing():
            self.close()

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<ChannelWriter {self.name!r} {self.dtype}[{shape}]>"

    # ------------------------------------------------ slots

    def _reserve(self) -> Slot | None:
        ring = self._ring
        if not ring.reserve() or not ring.streams_are_done():
            return None
        slot = Slot(self, ring.slot, False)
        self._lent = slot
        return slot

    def _without_room(self) -> Slot | None:
        """What comes of a full channel at once; None if it is waited for."""
        if self.when_full == "drop-newest":
            slot = Slot(self, self.slots, True)
            self._lent = slot
            return slot
        if self.when_full == "error":
            raise CudaIpcError(
                "CHANNEL_FULL",
                f'Cannot write to channel "{self.name}": all of its {self.slots} slots are taken',
            )
        return None

    def _fill(self, slot: Slot, data: Any, meta: Any, shape: Any) -> int | None:
        view = byte_view(data)
        memory = self._parts.memory
        if len(view) > self._parts.facts.slot_bytes:
            raise self._too_large(len(view), self._parts.facts.slot_bytes, "bytes")
        memory.write(slot._slot * self._parts.facts.slot_stride, view)
        length = None if shape is not None else len(view)
        return slot.commit(meta, shape, length)

    def _commit(
        self, slot: Slot, meta: Any, shape: int | Sequence[int] | None, byte_length: int | None
    ) -> int | None:
        facts = self._parts.facts
        lengths, size = self._size_of(shape, byte_length)
        flags, raw = self._encode(meta)
        if self._link.forked:
            self._link.check(f'write to channel "{self.name}"')
        if self._parts.memory.buffer is None:
            self._parts.memory.finish()
        slot._end()
        self._lent = None
        if slot._is_dropped:
            self._ring.drop()
            return None
        own = lengths if lengths is not None and size != facts.slot_bytes else None
        if lengths is not None and lengths != facts.shape:
            own = lengths
        return self._ring.commit(size, flags, raw, own)

    def _size_of(
        self, shape: int | Sequence[int] | None, byte_length: int | None
    ) -> tuple[tuple[int, ...] | None, int]:
        facts = self._parts.facts
        if shape is not None:
            if byte_length is not None:
                raise TypeError("a message has either a shape or a byte_length")
            lengths = checked_shape(shape, RANK_MAX)
            size = math.prod(lengths) * facts.dtype.itemsize
        elif byte_length is None:
            return None, facts.slot_bytes
        else:
            lengths, size = None, byte_length
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"byte_length must be an integer, not {size!r}")
            if size < 0 or size % facts.dtype.itemsize != 0:
                raise ValueError(f"byte_length {size} is no whole number of {facts.dtype.name}")
        if size > facts.slot_bytes:
            raise self._too_large(size, facts.slot_bytes, "bytes")
        return lengths, size

    def _encode(self, meta: Any) -> tuple[int, bytes]:
        if meta is None:
            return 0, b""
        if isinstance(meta, (bytes, bytearray, memoryview)):
            flags, raw = 0, bytes(meta)
        else:
            text = json.dumps(meta, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            flags, raw = FLAG_JSON, text.encode()
        limit = self._parts.facts.meta_bytes_max
        if len(raw) > limit:
            raise self._too_large(len(raw), limit, "bytes of meta")
        return flags, raw

    def _too_large(self, found: int, limit: int, what: str) -> CudaIpcError:
        return CudaIpcError(
            "MESSAGE_TOO_LARGE",
            f'Cannot write to channel "{self.name}": the message has {found} {what}, at most '
            f"{limit} are possible",
        )

    # ------------------------------------------------ waiting

    def _until_room(self, deadline: Deadline) -> Iterator[float | None]:
        """Says how to wait: a pause, or None for the bell."""
        ring = self._ring
        times = pauses()
        while True:
            deadline.check(self._why_full)
            # Readers ring when they give a slot back. Streams cannot, so it looks again.
            if ring.reserve() or ring.is_held_by_streams:
                remaining = deadline.remaining
                pause = next(times)
                yield pause if remaining is None else min(pause, remaining)
                continue
            times = pauses()
            ring.fall_asleep()
            # SYNC: looks again after the store. A reader gives back before it looks.
            yield 0.0 if ring.reserve() else None

    def _after_sleep(self) -> Slot | None:
        self._check_open("write to")
        self._ring.wake_up()
        slot = self._reserve()
        if slot is None:
            self._check_link()
        return slot

    def _end_wait(self) -> None:
        self._is_awaited = False
        if not self._closed:
            self._ring.wake_up()

    def _why_full(self) -> str:
        if self._ring.reserve():
            return "streams that use the next slot have not finished with it"
        places = self._ring.live_places()
        if not places:
            return "no reader is left, and the hub has not freed their places yet"
        slowest = max(places, key=self._ring.behind)
        who = self._inspect().get(slowest)
        named = f"reader {slowest}" + (f" ({who})" if who else "")
        return f"{named} is {self._ring.behind(slowest)} messages behind"

    def _check_link(self) -> None:
        attempt = f'write to channel "{self.name}"'
        self._link.check(attempt)
        if not self._held.is_held:
            raise CudaIpcError(
                "HUB_GONE",
                f"Cannot {attempt}: the hub has lost this writer, and nobody else frees the "
                "places of dead readers",
            )

    def _check_open(self, verb: str) -> None:
        if self._closed:
            closed(f'{verb} channel "{self.name}"')

    def _check_may_loan(self, verb: str) -> None:
        self._check_open(verb)
        if self._link.forked:
            self._link.check(f'{verb} channel "{self.name}"')
        if self._lent is not None or self._is_awaited:
            found = "another one is waited for" if self._is_awaited else "another one is lent"
            raise CudaIpcError(
                "IN_USE",
                f'Cannot {verb} channel "{self.name}": {found}; commit or close it first',
            )
