"""Waits: for a bell, by looking again and again, and the forms of both for asyncio."""

from __future__ import annotations

import functools
import select
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from ._deadline import Cancellation, Deadline, check_seconds
from ._fds import Bell, new_epoll

if TYPE_CHECKING:
    import asyncio

    from ._link import Link

P = ParamSpec("P")
T = TypeVar("T")
Form = TypeVar("Form", bound=Callable[..., object])

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


def run_pauses(steps: Generator[float, None, None]) -> None:
    """Runs a call that yields its pauses in seconds."""
    try:
        for pause in steps:
            time.sleep(pause)
    finally:
        steps.close()


async def suspend_pauses(steps: Generator[float, None, None]) -> None:
    """As `run_pauses`, for asyncio."""
    import asyncio

    try:
        for pause in steps:
            await asyncio.sleep(pause)
    finally:
        steps.close()


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


async def in_thread(call: Callable[[], T], undo: Callable[[T], object], cancels: bool = True) -> T:
    """Runs a call that waits on a thread of its own. If the task is cancelled, so is the call.

    `undo` takes back what came although nobody waits for it any more. Without `cancels` the call
    continues when the task is cancelled.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    cancellation = Cancellation()
    lock = threading.Lock()
    came: list[T] = []
    failures: list[BaseException] = []
    is_awaited = True

    def run() -> None:
        try:
            with cancellation:
                value = call()
        except BaseException as failure:
            failures.append(failure)
        else:
            came.append(value)
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:  # the loop was closed
            take_back()
        if not is_awaited:
            take_back()

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    def take_back() -> None:
        # WHY locked: the task that gives up and the thread of the call may both be here.
        with lock:
            left, came[:] = came[:], []
        for value in left:
            undo(value)

    threading.Thread(target=run, name="cuda-ipc call", daemon=True).start()
    try:
        await done
    except BaseException:
        # WHY although it may be done: a task can be cancelled just before it gets the result.
        is_awaited = False
        if cancels:
            cancellation.cancel()
        if came:
            # WHY a thread: it may wait for tasks of this event loop.
            threading.Thread(target=take_back, name="cuda-ipc undo", daemon=True).start()
        raise
    if not failures:
        return came[0]
    failure = failures.pop()
    try:
        raise failure
    finally:
        del failure  # its traceback has this frame


def async_form(
    call: Callable[P, T], undo: Callable[[T], object] | None = None
) -> Callable[P, Coroutine[Any, Any, T]]:
    """The form for asyncio of a call that waits, with the same parameters.

    If its task is cancelled, `undo` takes back what came all the same. By default that is closed.
    """

    async def form(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(lambda: call(*args, **kwargs), undo or _close)

    return _named(form, call, "If the task is cancelled, nothing is held.")


def async_close(call: Callable[P, None]) -> Callable[P, Coroutine[Any, Any, None]]:
    """The form for asyncio of a `close`. If its task is cancelled, the close continues."""

    async def form(*args: P.args, **kwargs: P.kwargs) -> None:
        await to_its_end(lambda: call(*args, **kwargs))

    return _named(form, call, "If the task is cancelled, it continues on its thread.")


class SlotCopy(Generic[T]):
    """A copy into a slot on another thread, which nothing can end."""

    __slots__ = ("_call", "is_done")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.is_done = False

    def __call__(self) -> T:
        try:
            return self._call()
        finally:
            self.is_done = True


async def to_its_end(call: Callable[[], T]) -> T:
    """Runs a call on a thread of its own, which completes it even if the task is cancelled."""
    return await in_thread(call, lambda _: None, cancels=False)


async def off_the_loop(waits: bool, call: Callable[[], T]) -> T:
    """Runs a call on a thread of its own, as `to_its_end`, if it waits."""
    return await to_its_end(call) if waits else call()


def _named(form: Form, call: Callable[..., object], cancelled: str) -> Form:
    functools.update_wrapper(form, call)
    form.__name__ = f"{call.__name__}_async"
    form.__qualname__ = f"{call.__qualname__}_async"
    form.__doc__ = f"As `{call.__name__}`, for asyncio. {cancelled}"
    return form


def _close(value: object) -> None:
    close = getattr(value, "close", None)
    if close is not None:
        close()
