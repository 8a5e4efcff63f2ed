"""Timelines: numbers that only grow, which other processes wait for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ._closing import ClosingAsync, ClosingAwaited
from ._deadline import NO_DEADLINE, Deadline
from ._keywords import explains_keywords
from ._protocol import POISON
from ._waiting import SPIN_S, async_close, checked_spin, pauses
from ._words import Words
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._link import Link
    from ._timeline_streams import TimelineStreams

_MAX = POISON - 1


class Timeline(ClosingAwaited, ClosingAsync):
    """A timeline of another process. One of this process is an `OwnedTimeline`."""

    def __init__(self, link: Link, name: str, held: HeldLease, words: Words, offset: int) -> None:
        super().__init__()
        self.name = name
        self._link = link
        self._held = held
        self._words = words
        self._value = offset // 8
        # Made for the first stream.
        self._streams: TimelineStreams | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def value(self) -> int:
        """The number that it has reached.

        Raises PEER_GONE if nobody signals it any more, because it ended or waits for its next
        owner. `read(even_if_ended=True)` returns the number in that case, too.
        """
        return self.read()

    def read(self, *, even_if_ended: bool = False) -> int:
        """The number that it has reached. Raises as `value`, unless `even_if_ended`."""
        longs = self._words.longs

        def look() -> tuple[int, bool, bool]:
            value = longs[self._value]
            ended = value == POISON
            last = longs[self._value + 1] if ended else value
            return last, ended, longs[self._value + 2] != 0

        value, ended, awaited = self._using(self._attempt("read"), look)
        if even_if_ended or not (ended or awaited):
            return value
        if ended:
            found = f"it ended at {value}: its owner closed it or is gone"
        else:
            found = f"its owner left it at {value}, and no other process has resumed it"
        raise CudaIpcError(
            "PEER_GONE",
            f'Cannot read timeline "{self.name}": {found}. '
            "read(even_if_ended=True) returns the value",
        )

    @property
    def ended(self) -> bool:
        """True if its owner has closed it or died. It grows no more."""
        longs = self._words.longs
        return self._using(self._attempt("read"), lambda: longs[self._value] == POISON)

    @property
    def awaited(self) -> bool:
        """True if it has no owner and waits for the next one."""
        longs = self._words.longs

        def look() -> bool:
            return longs[self._value + 2] != 0 and longs[self._value] != POISON

        return self._using(self._attempt("read"), look)

    def _why_not_reached(self) -> str:
        found = f"it has reached {self.read(even_if_ended=True)}"
        awaited = ", and its next owner is awaited" if self._words.longs[self._value + 2] else ""
        return f"{found}{awaited}; the hub is at {self._link.path}"

    def reached(self, value: int) -> bool:
        """Whether the timeline has reached `value`. Raises PEER_GONE if it never will, CLOSED."""
        _check_value(value)
        longs = self._words.longs

        def look() -> tuple[bool, int]:
            found = longs[self._value]
            return (True, longs[self._value + 1]) if found == POISON else (False, found)

        has_ended, reached = self._using(self._attempt("read"), look)
        if reached >= value or not has_ended:
            return reached >= value
        raise CudaIpcError(
            "PEER_GONE",
            f'Cannot wait for {value} on timeline "{self.name}": it ended at {reached}',
        )

    @explains_keywords
    def wait(
        self,
        value: int,
        timeout: float | None = None,
        *,
        spin: float = SPIN_S,
        stream: Any = None,
    ) -> None:
        """Waits until the timeline has reached `value`.

        The CPU looks again and again for `spin` seconds, then after pauses of at most a
        millisecond. With `stream` the stream waits, and the call returns at once: `timeout` and
        `spin` mean nothing then. A stream is one of PyTorch, CuPy or cuda.core, or a handle as an
        integer. It goes on, too, if the timeline ends before: then what it has done is worthless,
        and `reached` raises PEER_GONE.

        Raises TIMEOUT; PEER_GONE if the timeline ended before; HUB_GONE if no hub can tell whether
        its owner lives; CLOSED; TypeError, ValueError, and the errors of the GPU.
        """
        # WHY all are checked first: a wrong one is found out even if nothing is waited for.
        deadline = Deadline(f'wait for {value} on timeline "{self.name}"', timeout)
        spin = checked_spin(spin)
        if stream is not None:
            self._using(self._attempt("wait for"), lambda: self._use_streams().find(stream))
            if not self._has_reached(value):
                self._using(self._attempt("wait for"), lambda: self._stream_waits(stream, value))
            return
        if self._has_reached(value):
            return
        for pause in pauses(spin):
            if self._has_reached(value):
                return
            deadline.check(self._why_not_reached)
            remaining = deadline.remaining
            time.sleep(pause if remaining is None else min(pause, remaining))

    def prepare(self, stream: Any) -> None:
        """Registers the timeline with the GPU of `stream` now, and not at its first use there.

        The driver may wait for all work of the GPU for that. So prepare a timeline before streams
        wait for what it brings about. Raises as `wait` with a stream.
        """
        streams = self._use_streams
        self._using(self._attempt("use"), lambda: streams().prepare(streams().find(stream)))

    prepare_async = async_close(prepare)

    def _stream_waits(self, stream: Any, value: int) -> None:
        streams = self._use_streams()
        streams.wait(streams.find(stream), value)

    @explains_keywords
    async def wait_async(
        self, value: int, timeout: float | None = None, *, spin: float = SPIN_S
    ) -> None:
        """As `wait`, for asyncio."""
        import asyncio

        deadline = Deadline(f'wait for {value} on timeline "{self.name}"', timeout)
        _check_value(value)
        for pause in pauses(checked_spin(spin)):
            if self._has_reached(value):
                return
            deadline.check(self._why_not_reached)
            remaining = deadline.remaining
            await asyncio.sleep(pause if remaining is None else min(pause, remaining))

    def _has_reached(self, value: int) -> bool:
        if self.reached(value):
            return True
        self._link.check(f'wait for {value} on timeline "{self.name}"')
        if not self._held.is_held:
            raise CudaIpcError(
                "HUB_GONE",
                f'Cannot wait for {value} on timeline "{self.name}": the hub at {self._link.path} '
                "has lost it, and nobody else tells whether its owner lives",
            )
        return False

    @explains_keywords
    def close(self, timeout: float | None = None) -> None:
        """Gives it back.

        It waits for the streams that were given. `timeout` is in seconds; None waits without a
        limit. Raises TIMEOUT; the timeline is then still open.
        """
        if self._closed:
            return
        if self._link.forked:
            self._leave()
            return
        self._finish(Deadline(f'close timeline "{self.name}"', timeout))
        self._leave_when_awake(self._leave, lambda: None)

    close_async = async_close(close)

    def _leave(self) -> None:
        self._closed = True
        self._before_close()
        if self._streams is not None and not self._link.forked:
            self._streams.close()
        self._words.close()
        self._held.release()

    def _before_close(self) -> None:
        pass

    def _use_streams(self) -> TimelineStreams:
        if self._streams is None:
            # WHY here: to load ctypes takes milliseconds, and many programs need none of it.
            from ._timeline_streams import TimelineStreams

            self._streams = TimelineStreams(self._words, self._value)
            self._held.on_goodbye = self._finish
        return self._streams

    def _finish(self, deadline: Deadline = NO_DEADLINE) -> None:
        if self._streams is not None:
            self._streams.finish(deadline)

    def _attempt(self, verb: str) -> str:
        return f'{verb} timeline "{self.name}"'

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {self.read(even_if_ended=True)}"
        return f"<{type(self).__name__} {self.name!r} {state}>"


class OwnedTimeline(Timeline):
    """A timeline of this process. Closing it ends it for everybody, or waits for its next owner."""

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        words: Words,
        offset: int,
        awaits_owner: bool = False,
    ) -> None:
        self._awaits_owner = awaits_owner  # first: a signal may end the rest, and `close` needs it
        super().__init__(link, name, held, words, offset)

    def signal(self, value: int, *, stream: Any = None) -> None:
        """Lets the timeline come to `value`, which must be larger than before.

        Without `stream` it does so at once: all that this process has written to shared host memory
        before is visible to those who wait. With `stream` it does so once the stream has done its
        work so far, and all of that is visible. A stream is one of PyTorch, CuPy or cuda.core, or a
        handle as an integer. Raises ValueError if the value is not larger; IN_USE without `stream`
        while a stream still has to signal; HUB_GONE, CLOSED; TypeError or ValueError for a wrong
        stream, and the errors of the GPU.
        """
        _check_value(value)
        self._using(self._attempt("signal"), lambda: self._signal(value, stream))

    def _signal(self, value: int, stream: Any) -> None:
        before = self._words.longs[self._value]
        if before == POISON:
            found = f"the hub at {self._link.path} has ended it"
            raise CudaIpcError("HUB_GONE", f'Cannot signal timeline "{self.name}": {found}')
        enqueued = 0 if self._streams is None else self._streams.last_signal
        last = max(before, enqueued)
        if value <= last:
            raise ValueError(f"a timeline at {last} cannot come to {value}: it only grows")
        if self._link.forked:
            self._link.check(f'signal timeline "{self.name}"')
        if stream is not None:
            streams = self._use_streams()
            streams.signal(streams.find(stream), value)
        elif before < enqueued:
            raise CudaIpcError(
                "IN_USE",
                f'Cannot signal timeline "{self.name}": a stream still has to bring it to '
                f"{enqueued}",
            )
        else:
            self._words.store(self._value, value)

    def _before_close(self) -> None:
        if not self._link.forked and not self._awaits_owner:
            end_timeline(self._words, self._value)


def take_over(words: Words, index: int) -> None:
    """This process is the owner of the timeline from here on."""
    words.store(index + 2, 0)


def end_timeline(words: Words, index: int) -> None:
    """Ends the timeline whose value is at this index: every wait for it is over."""
    value = words.longs[index]
    if value != POISON:
        words.store(index + 1, value)
        words.store(index, POISON)


def _check_value(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"value must be an integer, not {value!r}")
    if not 0 <= value <= _MAX:
        raise ValueError(f"value must be from 0 to 2**63 - 2, not {value}")


#: As in Node, where many timelines share a file.
TIMELINE_FILE_BYTES = 65536
