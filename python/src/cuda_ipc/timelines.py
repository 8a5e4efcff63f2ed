"""Timelines: numbers that only grow, which other processes wait for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ._closing import Closing
from ._deadline import Deadline
from ._protocol import LINE_BYTES, POISON
from ._waiting import pauses
from ._words import Words
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._link import Link

_MAX = POISON - 1


class Timeline(Closing):
    """A timeline of another process. One of this process is an `OwnedTimeline`."""

    def __init__(self, link: Link, name: str, held: HeldLease, words: Words, offset: int) -> None:
        self.name = name
        self._link = link
        self._held = held
        self._words = words
        self._value = offset // 8
        self._last = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def value(self) -> int:
        """The number that it has reached."""
        self._check_open("read")
        value = self._words.longs[self._value]
        return self._words.longs[self._value + 1] if value == POISON else value

    @property
    def ended(self) -> bool:
        """True if its owner has closed it or died. It grows no more."""
        self._check_open("read")
        return self._words.longs[self._value] == POISON

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Waits until the timeline has reached `value`. The CPU polls, at most each millisecond.

        Raises TIMEOUT, PEER_GONE if it ended before, HUB_GONE if no hub can tell whether its owner
        lives, CLOSED.
        """
        deadline = Deadline(f'wait for {value} on timeline "{self.name}"', timeout)
        _check_value(value)
        for pause in pauses():
            if self._has_reached(value):
                return
            deadline.check(lambda: f"it has reached {self.value}")
            remaining = deadline.remaining
            time.sleep(pause if remaining is None else min(pause, remaining))

    async def wait_async(self, value: int, timeout: float | None = None) -> None:
        """As `wait`, for asyncio."""
        import asyncio

        deadline = Deadline(f'wait for {value} on timeline "{self.name}"', timeout)
        _check_value(value)
        for pause in pauses():
            if self._has_reached(value):
                return
            deadline.check(lambda: f"it has reached {self.value}")
            remaining = deadline.remaining
            await asyncio.sleep(pause if remaining is None else min(pause, remaining))

    def _has_reached(self, value: int) -> bool:
        self._check_open("wait for")
        found = self._words.longs[self._value]
        if found == POISON:
            reached = self._words.longs[self._value + 1]
            if reached >= value:
                return True
            raise CudaIpcError(
                "PEER_GONE",
                f'Cannot wait for {value} on timeline "{self.name}": it ended at {reached}',
            )
        if found >= value:
            return True
        self._link.check(f'wait for {value} on timeline "{self.name}"')
        if not self._held.is_held:
            raise CudaIpcError(
                "HUB_GONE",
                f'Cannot wait for {value} on timeline "{self.name}": the hub has lost it, and '
                "nobody else tells whether its owner lives",
            )
        return False

    def close(self) -> None:
        """Gives it back."""
        if self._closed:
            return
        self._closed = True
        self._before_close()
        self._words.close()
        self._held.release()

    def _before_close(self) -> None:
        pass

    def _check_open(self, verb: str) -> None:
        if self._closed:
            closed(f'{verb} timeline "{self.name}"')

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {self.value}"
        return f"<{type(self).__name__} {self.name!r} {state}>"


class OwnedTimeline(Timeline):
    """A timeline of this process. Closing it ends it for everybody."""

    def signal(self, value: int) -> None:
        """Lets the timeline come to `value`, which must be larger than before.

        All that this process has written to shared host memory before is visible to those who
        wait. For GPU memory, synchronize first.
        """
        self._check_open("signal")
        _check_value(value)
        before = self._words.longs[self._value]
        if before == POISON:
            raise CudaIpcError("HUB_GONE", f'Cannot signal timeline "{self.name}": it was ended')
        if value <= before:
            raise ValueError(f"a timeline at {before} cannot come to {value}: it only grows")
        if self._link.forked:
            self._link.check(f'signal timeline "{self.name}"')
        self._words.store(self._value, value)

    def _before_close(self) -> None:
        if not self._link.forked:
            end_timeline(self._words, self._value)


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
assert TIMELINE_FILE_BYTES % LINE_BYTES == 0
