"""Objects that close at the end of `with`, and when the program drops them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ._fds import is_finalizing
from .errors import closed

Self = TypeVar("Self", bound="Closing")


class OfProcess:
    """Belongs to this process. Others open the same thing by its name."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        # WHY a copy, too: its end would give back what the original holds.
        raise TypeError(
            f"Cannot pickle or copy {self!r}: it belongs to this process; pass its name, and "
            "connect() and open it there"
        )


class Closing(OfProcess):
    #: Missing if the constructor has failed.
    _closed: bool

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not is_finalizing():
            self.close()


class ClosingAwaited(Closing):
    """Can be closed while another thread or task waits in one of its calls.

    That call still uses all parts. So it frees them when it wakes, and `close` does not.
    """

    def __init__(self) -> None:
        self._is_awaited = False
        self._leave_later: Callable[[], object] | None = None
        # WHY reentrant: a handler of a signal may close it.
        self._waits = threading.RLock()

    def _leave_when_awake(self, leave: Callable[[], object], wake: Callable[[], object]) -> None:
        """Frees the parts: now, or when the call that waits has been woken."""
        with self._waits:
            if self._closed:
                return
            self._closed = True
            if self._is_awaited:
                self._leave_later = leave
                wake()
                return
        leave()

    def _begin_await(self, attempt: str) -> None:
        """Call it before a wait. Raises CLOSED if another thread has closed it meanwhile."""
        with self._waits:
            if self._closed:
                closed(attempt)
            self._is_awaited = True

    def _end_await(self) -> None:
        with self._waits:
            self._is_awaited = False
            leave, self._leave_later = self._leave_later, None
        if leave is not None:
            leave()
