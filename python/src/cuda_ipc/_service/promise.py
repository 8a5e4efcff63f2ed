"""Steps of a call that waits, run by a thread that blocks or by a task of asyncio.

A call is a generator. It yields what it waits for, so both forms share its code.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar

from .._deadline import Deadline
from .._waiting import to_its_end

T = TypeVar("T")


class Promise(Generic[T]):
    """A result that another thread settles once."""

    __slots__ = ("_callbacks", "_failure", "_lock", "_value", "settled")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self._value: T | None = None
        self._failure: BaseException | None = None
        self.settled = False

    def resolve(self, value: T) -> bool:
        """False if it was settled before."""
        return self._settle(value, None)

    def reject(self, failure: BaseException) -> bool:
        return self._settle(None, failure)

    def then(self, callback: Callable[[], object]) -> None:
        """Calls back once it is settled, on the thread that settles it."""
        with self._lock:
            if not self.settled:
                self._callbacks.append(callback)
                return
        callback()

    @property
    def value(self) -> T | None:
        """What it was resolved with; None if it was not, or was rejected."""
        return self._value

    def forget(self, callback: Callable[[], object]) -> None:
        """Does not call back any more. Does nothing if it has."""
        with self._lock, contextlib.suppress(ValueError):
            self._callbacks.remove(callback)

    def result(self) -> T:
        if self._failure is not None:
            raise self._failure
        return self._value  # type: ignore[return-value]

    def _settle(self, value: T | None, failure: BaseException | None) -> bool:
        with self._lock:
            if self.settled:
                return False
            self._value, self._failure, self.settled = value, failure, True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True


class Wait(NamedTuple):
    """Waits for the promise until the deadline."""

    promise: Promise[Any]
    deadline: Deadline


class Blocking(NamedTuple):
    """Blocks a thread, and not the event loop. The call continues if its task is cancelled."""

    call: Callable[[], Any]


class Late(Exception):
    """The deadline of a `Wait` is over."""


#: A wait, or a pause in seconds.
Step = Wait | Blocking | float
Steps = Generator[Step, Any, T]


def run(steps: Steps[T]) -> T:
    """Blocks this thread. What interrupts it is raised inside the call, which then cleans up."""
    try:
        step = next(steps)
        while True:
            try:
                value = _block(step)
            except BaseException as interruption:
                step = steps.throw(interruption)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def _block(step: Step) -> Any:
    if isinstance(step, Blocking):
        return step.call()
    if not isinstance(step, Wait):
        time.sleep(step)
        return None
    promise, deadline = step
    if not promise.settled:
        settled = threading.Event()
        promise.then(settled.set)
        try:
            settled.wait(deadline.remaining)
        finally:
            promise.forget(settled.set)
        if not promise.settled:
            raise Late
    return promise.result()


async def run_async(steps: Steps[T]) -> T:
    """As `run`, for a task. Its cancellation is raised inside the call."""
    try:
        step = next(steps)
        while True:
            try:
                value = await _suspend(step)
            except BaseException as interruption:
                step = steps.throw(interruption)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def _suspend(step: Step) -> Any:
    import asyncio

    if isinstance(step, Blocking):
        return await to_its_end(step.call)
    if not isinstance(step, Wait):
        await asyncio.sleep(step)
        return None
    promise, deadline = step
    if not promise.settled:
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not settled.done():
                settled.set_result(None)

        def tell() -> None:
            call_soon(loop, wake)

        promise.then(tell)
        remaining = deadline.remaining
        timer = None
        if remaining is not None:
            timer = loop.call_later(remaining, wake)
        try:
            await settled
        finally:
            promise.forget(tell)
            if timer is not None:
                timer.cancel()
        if not promise.settled:
            raise Late
    return promise.result()


def call_soon(loop: Any, callback: Callable[[], object]) -> bool:
    """False if the loop was closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True


def in_background(work: Callable[[], T]) -> Promise[T]:
    """Runs a short piece of blocking work on a thread of its own."""
    promise: Promise[T] = Promise()

    def call() -> None:
        try:
            promise.resolve(work())
        except BaseException as failure:
            promise.reject(failure)

    threading.Thread(target=call, name="cuda-ipc call", daemon=True).start()
    return promise
