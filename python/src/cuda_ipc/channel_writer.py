"""Writes to a channel: one slot at a time is loaned, filled and committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._channel_parts import WriterParts, check_range
from ._choices import DTypeName, WhenFull
from ._closing import ClosingAsync
from ._deadline import Deadline
from ._keywords import explains_keywords
from ._protocol import WRITER_AWAITED, WRITER_CLOSED
from ._ring_words import DROPPED
from ._room import AskLater, ask_later, until_room, why_full
from ._slot_loans import SlotLoans
from ._waiting import (
    Spin,
    async_close,
    hear,
    hear_async,
    pauses,
    run_pauses,
    suspend_pauses,
    to_its_end,
)
from .channel_slot import Slot
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._cuda_streams import Stream
    from ._leases import HeldLease
    from ._link import Link


class ChannelWriter(SlotLoans, ClosingAsync):
    """The writer of a channel. One thread at a time may use it. Another may close it."""

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        parts: WriterParts,
        inspect: Callable[[], Mapping[int, str]],
    ) -> None:
        SlotLoans.__init__(self, link, name, held, parts)
        self._inspect = inspect
        self._dropped = 0
        self._spin = Spin()
        held.on_lost = parts.room.ring
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def dtype(self) -> DTypeName:
        return self._parts.facts.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a message that fills its slot."""
        return self._parts.facts.shape

    @property
    def slots(self) -> int:
        return self._parts.facts.slots

    @property
    def when_full(self) -> WhenFull:
        return self._parts.facts.when_full

    @property
    def readers(self) -> int:
        """How many readers are attached now."""
        return self._while_open(lambda: len(self._ring.live_seats()), lambda: 0)

    @property
    def committed(self) -> int:
        """Messages that were committed, by this writer and those before it."""
        return self._ring.sequence

    @property
    def dropped(self) -> int:
        """Messages that were dropped because no slot was free."""
        return self._while_open(lambda: self._parts.control.longs[DROPPED], lambda: self._dropped)

    def try_loan(self, *, stream: Any = None) -> Slot | None:
        """Loans a slot at once. None if none is free; with drop-newest the message then counts
        as dropped. `stream` is as for `loan`. Raises CLOSED, IN_USE."""
        self._check_may_loan("loan a slot of")
        try:
            slot = self._reserve(self._given_stream(stream))
            if slot is None and self.when_full == "drop-newest":
                self._using(f'write to channel "{self.name}"', self._ring.drop)
            return slot
        except BaseException:
            self._take_back()
            raise

    def loan(self, timeout: float | None = None, *, stream: Any = None) -> Slot:
        """Loans a slot. If none is free, `when_full` decides.

        With wait, it waits for the slowest reader; with drop-oldest, only if readers hold every
        slot; with drop-newest the slot is one that no reader sees. `timeout` is in seconds; None
        waits without a limit.

        `stream` is the stream of a GPU that fills the slot: of PyTorch, CuPy or cuda.core, or a
        handle as an integer. It waits on the GPU for readers whose streams still use the slot.
        Without a stream such a slot is taken. Raises TIMEOUT, which names the slowest reader;
        CHANNEL_FULL with error; IN_USE if another slot is loaned; HUB_GONE, CLOSED; TypeError or
        ValueError for a wrong stream.
        """
        self._check_may_loan("loan a slot of")
        by = self._given_stream(stream)
        try:
            slot = self._reserve(by) or self._without_room(by)
            if slot is not None:
                return slot
            deadline = Deadline(f'write to channel "{self.name}"', timeout)
            self._begin_await(f'write to channel "{self.name}"')
            slot = self._spin.until(lambda: self._reserve(by), timeout)
            if slot is not None:
                return slot
            for pause in until_room(self._ring, deadline, self._inspect):
                if pause is not None:
                    time.sleep(pause)
                else:
                    hear(self._parts.room, self._link, deadline)
                slot = self._after_sleep(by)
                if slot is not None:
                    return slot
            raise AssertionError("a wait for room ends with a slot or an error")
        except BaseException:
            self._take_back()
            raise
        finally:
            self._end_wait()

    async def loan_async(self, timeout: float | None = None, *, stream: Any = None) -> Slot:
        """As `loan`, for asyncio."""
        import asyncio

        self._check_may_loan("loan a slot of")
        by = self._given_stream(stream)
        try:
            slot = self._reserve(by) or self._without_room(by)
            if slot is not None:
                return slot
            deadline = Deadline(f'write to channel "{self.name}"', timeout)
            self._begin_await(f'write to channel "{self.name}"')
            slot = self._spin.until(lambda: self._reserve(by), timeout)
            if slot is not None:
                return slot
            for pause in until_room(self._ring, deadline, ask_later):
                if pause is not None:
                    await asyncio.sleep(pause)
                else:
                    await hear_async(self._parts.room, self._link, deadline)
                slot = self._after_sleep(by)
                if slot is not None:
                    return slot
            raise AssertionError("a wait for room ends with a slot or an error")
        except AskLater:
            readers = await to_its_end(self._inspect)
            self._check_open("write to")
            raise deadline.timed_out(why_full(self._ring, lambda: readers)) from None
        except BaseException:
            self._take_back()
            raise
        finally:
            self._end_wait()

    def send(
        self,
        data: Any,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        timeout: float | None = None,
        *,
        stream: Any = None,
    ) -> int | None:
        """Copies `data` into a slot and commits it. Returns its sequence; None if it was dropped.

        `data` is bytes, or a C-contiguous array on the host of the channel's dtype, such as one of
        NumPy or PyTorch; for a channel of uint8 of any dtype. Without `shape`, a message that does
        not fill its slot is one row of elements. The CPU copies at once; `stream` is that of
        `Slot.commit`. Raises as `loan` and `Slot.commit`.
        """
        with self.loan(timeout) as slot:
            return self._fill(slot, slot._write(data), meta, shape, stream)

    async def send_async(
        self,
        data: Any,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        timeout: float | None = None,
        *,
        stream: Any = None,
    ) -> int | None:
        """As `send`, for asyncio."""
        with await self.loan_async(timeout) as slot:
            return self._fill(slot, await self._write_async(slot, data), meta, shape, stream)

    @explains_keywords
    def wait_for_readers(self, count: int, timeout: float | None = None) -> None:
        """Waits until the channel has this many readers. Raises TIMEOUT, HUB_GONE, CLOSED."""
        run_pauses(self._until_readers(count, timeout))

    @explains_keywords
    async def wait_for_readers_async(self, count: int, timeout: float | None = None) -> None:
        """As `wait_for_readers`, for asyncio."""
        await suspend_pauses(self._until_readers(count, timeout))

    def _until_readers(self, count: int, timeout: float | None) -> Generator[float, None, None]:
        deadline = Deadline(f'wait for {count} readers of channel "{self.name}"', timeout)
        check_range("count", count, 0, self._parts.facts.readers_max)
        for pause in pauses():
            self._check_open("wait for readers of")
            if self.readers >= count:
                return
            deadline.check(
                lambda: f"{self.readers} of {count} came; the hub is at {self._link.path}"
            )
            self._check_link()
            yield pause

    @explains_keywords
    def close(self, timeout: float | None = None) -> None:
        """Ends the channel. With `when_writer_gone` wait, it waits for the next writer instead.

        It waits for the streams that were given, because messages are ready only after them.
        `timeout` is in seconds; None waits without a limit. Raises TIMEOUT; the channel is then
        still open. A call that waits in another thread or task ends with CLOSED.
        """
        gone = self._parts.facts.when_writer_gone
        self._close(WRITER_CLOSED if gone == "end" else WRITER_AWAITED, timeout)

    @explains_keywords
    def end(self, timeout: float | None = None) -> None:
        """As `close`. It ends the channel with `when_writer_gone` wait, too."""
        self._close(WRITER_CLOSED, timeout)

    close_async = async_close(close)
    end_async = async_close(end)

    def _close(self, state: int, timeout: float | None) -> None:
        deadline = Deadline(f'close channel "{self.name}"', timeout)
        if self._closed:
            return
        try:
            self._take_back()
        finally:
            if not self._link.forked:
                self._finish(deadline)
                self._leave_when_awake(lambda: self._leave(state), self._parts.room.ring)
            else:  # the thread that waits is the parent's
                self._leave(state)

    def _leave(self, state: int = WRITER_CLOSED) -> None:
        self._dropped = self._parts.control.longs[DROPPED]
        self._closed = True
        self._held.on_lost = None
        if not self._link.forked:
            self._ring.leave(state)
            if self._streams is not None:
                self._streams.close()
        self._parts.close()
        self._held.release()

    def __repr__(self) -> str:
        return f"<ChannelWriter {self.name!r} {self.dtype}[{', '.join(map(str, self.shape))}]>"

    # ------------------------------------------------ waiting

    def _after_sleep(self, by: Stream | None) -> Slot | None:
        self._check_open("write to")
        self._ring.wake_up()
        slot = self._reserve(by)
        if slot is None:
            self._check_link()
        return slot

    def _end_wait(self) -> None:
        if self._is_awaited:
            if not self._closed:
                self._ring.wake_up()
            self._end_await()

    def _check_link(self) -> None:
        attempt = f'write to channel "{self.name}"'
        self._link.check(attempt)
        if not self._held.is_held:
            raise CudaIpcError(
                "HUB_GONE",
                f"Cannot {attempt}: the hub at {self._link.path} has lost this writer, and nobody "
                "else frees the seats of dead readers",
            )

    def _check_open(self, verb: str) -> None:
        if self._closed:
            closed(f'{verb} channel "{self.name}"')

    def _check_may_loan(self, verb: str) -> None:
        if self._closed:
            self._check_open(verb)
        if self._link.forked:
            self._link.check(f'{verb} channel "{self.name}"')
        is_loaned = self._loaned is not None and self._loaned() is not None
        if is_loaned or self._is_awaited:
            found = "another one is waited for" if self._is_awaited else "another one is loaned"
            raise CudaIpcError(
                "IN_USE",
                f'Cannot {verb} channel "{self.name}": {found}; commit or close it first',
            )
