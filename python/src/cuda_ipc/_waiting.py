"""Waits: for a bell, by looking again and again, and the forms of both for asyncio."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from ._deadline import Deadline, check_seconds
from ._fds import Bell, new_epoll

if TYPE_CHECKING:
    import asyncio

    from ._link import Link

T = TypeVar("T")

#: How long to look again before a sleep, in seconds.
SPIN_S = 20e-6
_SPIN_MAX_S = 1.0
#: The share of the spin that always stays, to notice that a channel is busy again.
_LEAST = 1 / 64
#: How long to look again and again for what a GPU does, which rings no bell.
_GPU_SPIN_S = 1e-3
_LAST_PAUSE_S = 1e-3


def checked_spin(spin: float) -> float:
    """Raises TypeError, ValueError."""
    check_seconds("spin", spin)
    return min(spin, _SPIN_MAX_S)


class Spin:
    """Looks again and again before a sleep, for as long as that has helped of late.

    So a busy channel answers in microseconds, and a quiet one costs no CPU. A spin keeps Python's
    lock, and stops an event loop.
    """

    __slots__ = ("_limit", "_now")

    def __init__(self, limit: float = SPIN_S) -> None:
        """`limit` is in seconds; 0 never spins. Raises TypeError, ValueError."""
        self._limit = self._now = checked_spin(limit)

    def until(self, look: Callable[[], T | None], timeout: float | None = None) -> T | None:
        """What `look` returns, or None if it is None for the whole spin. At most `timeout`."""
        if self._limit == 0:
            return None
        length = self._now if timeout is None else min(self._now, timeout)
        end = time.perf_counter() + length
        while True:
            found = look()
            if found is not None:
                self._now = min(self._limit, 2 * self._now)
                return found
            if time.perf_counter() >= end:
                self._now = max(self._limit * _LEAST, self._now / 2)
                return None


def pauses(spin: float = SPIN_S) -> Iterator[float]:
    """Pauses between looks at a word that nobody rings for: none at first, up to 1 ms."""
    began = time.perf_counter()
    while time.perf_counter() - began < spin:
        yield 0.0
    pause = 50e-6
    while True:
        yield pause
        pause = min(pause * 1.5, _LAST_PAUSE_S)


def gpu_pauses() -> Iterator[float]:
    """As `pauses`, for what a GPU is about to do. A short pause would take longer than most work
    of a GPU."""
    return pauses(_GPU_SPIN_S)


def hear(bell: Bell, link: Link, deadline: Deadline) -> None:
    """Sleeps until the bell rings, the link ends or the time is up. A signal may end it, too."""
    end_fd = link.begin_sleep()
    if end_fd is None:
        return
    try:
        poll = select.poll()
        poll.register(bell.fd, select.POLLIN)
        poll.register(end_fd, select.POLLIN)
        poll.poll(deadline.remaining_ms)
        bell.silence()
    finally:
        link.end_sleep()


async def hear_async(bell: Bell, link: Link, deadline: Deadline) -> None:
    """As `hear`, and the event loop goes on meanwhile."""
    import asyncio

    end_fd = link.begin_sleep()
    if end_fd is None:
        return
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not heard.done():
            heard.set_result(None)

    # WHY an epoll of its own: an event loop watches a descriptor for one reader alone.
    try:
        poll = new_epoll()
    except BaseException:
        link.end_sleep()
        raise
    try:
        poll.register(bell.fd, select.EPOLLIN)
        poll.register(end_fd, select.EPOLLIN)
        loop.add_reader(poll.fileno(), wake)
        remaining = deadline.remaining
        timer = None if remaining is None else loop.call_later(remaining, wake)
        try:
            await heard
        finally:
            if timer is not None:
                timer.cancel()
            loop.remove_reader(poll.fileno())
        bell.silence()
    finally:
        poll.close()
        link.end_sleep()


async def in_thread(deadline: Deadline, call: Callable[[], T], undo: Callable[[T], object]) -> T:
    """Runs a call that waits on a thread of its own. If the task is cancelled, so is the call.

    `undo` takes back what came although nobody waits for it any more.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, failure: BaseException | None) -> None:
        if done.done():
            if failure is None:
                # WHY a thread: it may wait for tasks of this event loop.
                threading.Thread(
                    target=undo, args=(value,), name="cuda-ipc undo", daemon=True
                ).start()
        elif failure is not None:
            done.set_exception(failure)
        else:
            done.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value, failure = None, None
        try:
            value = call()
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:  # the loop was closed
            if failure is None:
                undo(value)  # type: ignore[arg-type]

    threading.Thread(target=run, name="cuda-ipc call", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        deadline.cancel()
        raise
