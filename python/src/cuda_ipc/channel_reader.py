"""Reads a channel: every message in place, in order, without a copy."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from ._channel_parts import ReaderParts
from ._choices import DTypeName, Start
from ._closing import ClosingAsync
from ._deadline import Deadline
from ._keywords import explains_keywords
from ._messages import Messages
from ._protocol import LIMIT_CHANNEL_LOOKS, WRITER_AWAITED, WRITER_CLOSED, WRITER_GONE
from ._ring_message import held_here
from ._ring_words import SEQUENCE
from ._waiting import Spin, async_close, gpu_pauses, hear, hear_async
from .channel_message import Message
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._link import Link

_STARTS = ("next", "latest", "oldest")


class ChannelReader(Messages, ClosingAsync):
    """A reader of a channel. One thread at a time may use it. Another may close it."""

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        parts: ReaderParts,
        start: Start,
        lossy: bool,
        stream: object,
        spin: Spin,
    ) -> None:
        Messages.__init__(self, link, name, held, parts, start, lossy, stream)
        self._spin = spin
        # Only the hub rings when the writer dies. If it has lost us, it will not.
        held.on_lost = parts.bell.ring
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
        return self._slots

    @property
    def lossy(self) -> bool:
        """True if the writer may overtake this reader."""
        return self._ring.lossy

    @property
    def received(self) -> int:
        """Messages that were read."""
        return self._ring.received

    @property
    def missed(self) -> int:
        """Messages that were overwritten before they were read, or died with their writer."""
        return self._ring.missed

    def next(self, timeout: float | None = None) -> Message | None:
        """Waits for the next message. None once the writer has closed the channel.

        `timeout` is in seconds; None waits without a limit. Raises TIMEOUT; PEER_GONE if the
        writer died and all that it committed was read; HUB_GONE if no hub can tell whether the
        writer lives; and as `try_next`.
        """
        # WHY: a signal before `try_next` must not keep a message that was handed out before.
        self._coming = message = None
        try:
            message = self._try_next()
            if message is not None:
                self._coming = None
                return message
            deadline = Deadline(f'read channel "{self.name}"', timeout)
            self._begin_wait()
            try:
                message = self._spin.until(self._try_next, timeout)
                if message is not None:
                    self._coming = None
                    return message
                for pause in self._until_news(deadline):
                    if pause is not None:
                        time.sleep(pause)
                    else:
                        hear(self._parts.bell, self._link, deadline)
                    message = self._after_sleep()
                    if message is not None:
                        self._coming = None
                        return message
                return None
            finally:
                self._end_wait()
        except BaseException:
            self._keep(message)
            raise

    async def next_async(self, timeout: float | None = None) -> Message | None:
        """As `next`, for asyncio."""
        import asyncio

        # WHY: a signal before `try_next` must not keep a message that was handed out before.
        self._coming = message = None
        self._is_on_loop = self._waits_for_gpu
        try:
            message = self._try_next()
            if message is not None:
                # Others get their turn even if messages never end.
                await asyncio.sleep(0)
                self._coming = None
                return message
            deadline = Deadline(f'read channel "{self.name}"', timeout)
            self._begin_wait()
            try:
                message = self._spin.until(self._try_next, timeout)
                if message is not None:
                    self._coming = None
                    return message
                for pause in self._until_news(deadline):
                    if pause is not None:
                        await asyncio.sleep(pause)
                    else:
                        await hear_async(self._parts.bell, self._link, deadline)
                    message = self._after_sleep()
                    if message is not None:
                        self._coming = None
                        return message
                return None
            finally:
                self._end_wait()
        except BaseException:
            self._keep(message)
            raise
        finally:
            self._is_on_loop = False

    def __iter__(self) -> Iterator[Message]:
        """Each message until the writer closes the channel. Releases it before the next one."""
        while (message := self.next()) is not None:
            try:
                yield message
            finally:
                if not self._closed:
                    message.release()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self.next_async()) is not None:
            try:
                yield message
            finally:
                if not self._closed:
                    await message.release_async()

    @explains_keywords
    def close(self, timeout: float | None = None) -> None:
        """Gives all messages and the seat back.

        It waits for the streams that were given, because they may still use the messages; on a GPU
        for all work of this process's context. `timeout` is in seconds; None waits without a limit.
        Raises TIMEOUT; the reader is then still open. A call that waits in another thread or task
        ends with CLOSED.
        """
        deadline = Deadline(f'close channel "{self.name}"', timeout)
        if self._closed:
            return
        if not self._link.forked:
            self._finish(deadline)
            self._leave_when_awake(self._leave, self._parts.bell.ring)
        else:  # the thread that waits is the parent's
            self._leave()

    close_async = async_close(close)

    def _leave(self) -> None:
        self._closed = True
        self._pending = None
        self._held.on_lost = None
        if not self._link.forked:
            if self._streams is not None:
                self._streams.settle()
                self._streams.close()
            self._ring.leave()
        self._parts.close()
        self._held.release()

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<ChannelReader {self.name!r} {self.dtype}[{shape}]>"

    # ------------------------------------------------ waiting

    def _begin_wait(self) -> None:
        if self._is_awaited:
            raise CudaIpcError(
                "IN_USE",
                f'Cannot read channel "{self.name}": another call waits for a message; give it a '
                "timeout, or cancel it",
            )
        self._begin_await(f'read channel "{self.name}"')
        # A signal may have ended a release before the writer knew of it.
        self._ring.retry()

    def _end_wait(self) -> None:
        if not self._closed:
            self._ring.wake_up()
        self._end_await()

    def _until_news(self, deadline: Deadline) -> Iterator[float | None]:
        """Says how to wait: a pause, or None for the bell. Ends when the channel has ended."""
        times = gpu_pauses()
        while not self._is_over():
            deadline.check(self._why_empty)
            # Nobody rings when a stream is done.
            if self._pending is not None or self._ring.is_held_up or self._settling is not None:
                remaining = deadline.remaining
                pause = next(times)
                yield pause if remaining is None else min(pause, remaining)
                continue
            times = gpu_pauses()
            ring = self._ring
            ring.fall_asleep()
            # SYNC: looks again after the store. The writer stores its news before it looks.
            yield 0.0 if ring.has_next or ring.state in (WRITER_CLOSED, WRITER_GONE) else None

    def _after_sleep(self) -> Message | None:
        if self._closed:
            self._refuse()
        self._ring.wake_up()
        message = self._try_next()
        if message is None and not self._ring.has_next:
            attempt = f'read channel "{self.name}"'
            if self._ring.state in (WRITER_CLOSED, WRITER_GONE):
                return None
            self._link.check(attempt)
            if not self._held.is_held:
                raise CudaIpcError(
                    "HUB_GONE",
                    f"Cannot {attempt}: the hub at {self._link.path} has lost this reader, and "
                    "nobody else tells whether the writer lives",
                )
        return message

    def _is_over(self) -> bool:
        state = self._ring.state
        if state not in (WRITER_CLOSED, WRITER_GONE) or self._pending is not None:
            return False
        # SYNC: after the state. A message may have come just before the end.
        if self._ring.has_next:
            return False
        self._ring.count_rest()
        if state == WRITER_GONE:
            raise CudaIpcError(
                "PEER_GONE",
                f'Cannot read channel "{self.name}": its writer is gone, and all that it committed '
                "was read",
            )
        return True

    def _why_empty(self) -> str:
        if self._pending is not None:
            return "a stream of the writer is still at work on the next message"
        if self._ring.is_held_up:
            return "streams hold all the slots that this reader can have"
        if self._settling is not None:
            return "a GPU is still at work on messages that this process has dropped"
        held = self._ring.held_up_by_program
        if held > 0:
            return f"no slot is free: {held_here(held, 'message', 'messages')}"
        if self._ring.is_outrun:
            return (
                "its writer never stops changing its words: "
                f"{LIMIT_CHANNEL_LOOKS} looks found no message"
            )
        if self._ring.state == WRITER_AWAITED:
            return "its writer is gone, and no other one has come yet"
        count = self._parts.control.longs[SEQUENCE]
        messages = "1 message" if count == 1 else f"{count} messages"
        return f"its writer has committed nothing more, {messages} in all"


def check_start(start: object) -> None:
    if start not in _STARTS:
        raise ValueError(f"start must be one of {', '.join(_STARTS)}, not {start!r}")
