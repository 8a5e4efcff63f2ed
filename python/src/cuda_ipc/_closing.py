"""Objects that close at the end of `with`, and when the program drops them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, Protocol, TypeVar

from ._fds import is_finalizing
from .errors import CudaIpcError, closed

Self = TypeVar("Self", bound="Closing")
Async = TypeVar("Async", bound="ClosingAsync")
T = TypeVar("T")


class OfProcess:
    """Belongs to this process. Others open the same thing by its name."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        # WHY a copy, too: its end would give back what the original holds.
        raise TypeError(
            f"Cannot pickle or copy {self!r}: it belongs to this process; pass its name, and "
            "connect() and open it there"
        )


class OfChannel:
    """Belongs to a channel or a service of this process, which gets it back once."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        # WHY a copy, too: its end would give back what the original holds.
        raise TypeError(
            f"Cannot pickle or copy a {type(self).__name__}: its slot belongs to a channel of this "
            "process; copy its data, such as bytes(message.data) or message.numpy().copy()"
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


class _HasCloseAsync(Protocol):
    def close_async(self) -> Awaitable[None]: ...


class ClosingAsync:
    """Closes at the end of `async with`, and the event loop continues meanwhile."""

    __slots__ = ()

    async def __aenter__(self: Async) -> Async:
        return self

    async def __aexit__(self: _HasCloseAsync, *_: object) -> None:
        await self.close_async()


#: How long `close` waits for a call of another thread to let go of the parts.
_PATIENCE_S = 0.1


class ClosingAwaited(Closing):
    """Can be closed while another thread or task is in one of its calls.

    That call still uses all parts. So it frees them when it ends, and `close` does not. A call
    that does not wait is made as `_using` does it: it stores `_user`, then looks at `_closed`.
    `close` stores `_closed`, then looks at `_user`. So one of the two sees the other.
    """

    def __init__(self) -> None:
        self._is_awaited = False
        self._waiter = 0
        #: The thread in a call that does not wait; 0 if there is none.
        self._user = 0
        self._leave_later: Callable[[], object] | None = None
        # WHY reentrant: a handler of a signal may close it.
        self._waits = threading.RLock()

    def _leave_when_awake(self, leave: Callable[[], object], wake: Callable[[], object]) -> None:
        """Frees the parts: now, or when the call that uses them ends."""
        with self._waits:
            if self._closed:
                return
            self._leave_later = leave
            self._closed = True
            if self._is_awaited:
                wake()
        # WHY: the caller may end the connection next, and others should see this end before.
        end = time.monotonic() + _PATIENCE_S
        while self._is_used_elsewhere and time.monotonic() < end:
            time.sleep(0.0005)
        self._leave_unused()

    @property
    def _is_used_elsewhere(self) -> bool:
        """Whether another thread is in a call."""
        own = threading.get_ident()
        return self._user not in (0, own) or (self._is_awaited and self._waiter != own)

    def _leave_unused(self) -> None:
        """Frees the parts of what was closed, unless a call still uses them."""
        with self._waits:
            # WHY not for this thread's own call: a signal has ended it, or closes during it.
            if self._is_awaited or self._user not in (0, threading.get_ident()):
                return
            leave, self._leave_later = self._leave_later, None
        if leave is not None:
            leave()

    def _while_open(self, look: Callable[[], T], after: Callable[[], T]) -> T:
        """What `look` finds, and once this is closed, what `after` says."""
        if not self._closed:
            with contextlib.suppress(CudaIpcError):
                return self._using("look", look)
        return after()

    def _using(self, attempt: str, call: Callable[[], T]) -> T:
        """Makes a call that uses the parts and does not wait. Raises CLOSED."""
        try:
            self._user = threading.get_ident()
            if self._closed:
                closed(attempt)
            return call()
        finally:
            self._user = 0
            if self._leave_later is not None:
                self._leave_unused()

    def _begin_await(self, attempt: str) -> None:
        """Call it before a wait. Raises CLOSED if another thread has closed it meanwhile."""
        with self._waits:
            if self._closed:
                closed(attempt)
            self._waiter = threading.get_ident()
            self._is_awaited = True

    def _end_await(self) -> None:
        with self._waits:
            self._is_awaited = False
        if self._leave_later is not None:
            self._leave_unused()
