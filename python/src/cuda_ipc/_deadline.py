"""How long a call may take, and how another thread ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .errors import CudaIpcError, CudaIpcTimeout

#: Three weeks. `poll` takes at most 2**31 milliseconds.
_LONGEST_S = 21 * 86400


def check_seconds(name: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0 seconds, not {value!r}")


class Cancellation:
    """Lets another thread end a call. It rules each `Deadline` that its thread makes in `with`."""

    __slots__ = ("_lock", "_wake", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None

    def on_cancel(self, wake: Callable[[], object] | None) -> None:
        """Says how to wake the thread that waits. Wakes at once if it was cancelled before."""
        with self._lock:
            self._wake = wake
            was_cancelled = self.cancelled
        if was_cancelled and wake is not None:
            wake()

    def cancel(self) -> None:
        """Ends the call with ABORTED."""
        with self._lock:
            self.cancelled = True
            wake = self._wake
        if wake is not None:
            wake()

    def __enter__(self) -> Cancellation:
        _of_thread.cancellation = self
        return self

    def __exit__(self, *_: object) -> None:
        _of_thread.cancellation = None


class _OfThread(threading.local):
    cancellation: Cancellation | None = None


_of_thread = _OfThread()


class Deadline:
    """The time limit of one call. `timeout` is in seconds; None waits without a limit."""

    __slots__ = ("_at", "_cancellation", "attempt", "timeout")

    def __init__(
        self, attempt: str, timeout: float | None, cancellation: Cancellation | None = None
    ) -> None:
        if timeout is not None:
            check_seconds("timeout", timeout)
        self.attempt = attempt
        self.timeout = timeout
        self._cancellation = cancellation or _of_thread.cancellation or Cancellation()
        # WHY no limit for long ones: the system's calls take none of more than some weeks.
        has_limit = timeout is not None and timeout < _LONGEST_S
        self._at = time.monotonic() + timeout if has_limit else None  # type: ignore[operator]

    def shorter(self, timeout: float) -> Deadline:
        """The same attempt with another limit, from now on. What cancels this one cancels both."""
        return Deadline(self.attempt, timeout, self._cancellation)

    @property
    def cancelled(self) -> bool:
        return self._cancellation.cancelled

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, at least 0; None if there is no limit."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def remaining_ms(self) -> float | None:
        remaining = self.remaining
        return None if remaining is None else remaining * 1000

    def check(self, found: Callable[[], str] | None = None) -> None:
        """Raises TIMEOUT if the time is up, and ABORTED if the call was cancelled."""
        self.check_cancelled()
        if self._at is not None and time.monotonic() >= self._at:
            raise self.timed_out(found)

    def check_cancelled(self, undo: Callable[[], object] | None = None) -> None:
        if self.cancelled:
            if undo is not None:
                undo()
            raise CudaIpcError("ABORTED", f"Cannot {self.attempt}: the call was cancelled")

    def timed_out(self, found: Callable[[], str] | str | None = None) -> CudaIpcTimeout:
        why = found() if callable(found) else found
        message = f"Cannot {self.attempt} within {self.timeout:g} s"
        return CudaIpcTimeout("TIMEOUT", message if not why else f"{message}: {why}")

    def on_cancel(self, wake: Callable[[], object] | None) -> None:
        """Says how to wake the thread that waits. Wakes at once if it was cancelled before."""
        self._cancellation.on_cancel(wake)

    def cancel(self) -> None:
        """Ends the call from another thread with ABORTED."""
        self._cancellation.cancel()


#: WHY here: a module that is imported later may be imported by a call that is cancelled.
NO_DEADLINE = Deadline("wait", None)


class GrowingPause:
    """Pauses in seconds that double from a millisecond up to `last`."""

    __slots__ = ("_last", "_next")

    def __init__(self, last: float = 1.0) -> None:
        self._last = last
        self._next = 0.001

    def next(self) -> float:
        pause = self._next
        self._next = min(2 * pause, self._last)
        # Processes that failed together should not try again together.
        return pause * (0.5 + (time.monotonic_ns() >> 4) % 1024 / 2048)
