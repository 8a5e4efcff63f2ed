"""Signals an eventfd without ever waiting, whatever its other holders do to it.

The kernel's asynchronous I/O (AIO) signals the eventfd that a request names. That signal saturates
instead of waiting. See `src/os/bell-signal.ts`, which does the same.
"""

from __future__ import annotations

import os
import threading

_EVENTS = 16
_EVENT_BYTES = 32
#: After a refusal, the rings until the next attempt.
_RINGS_UNTIL_RETRY = 64
#: Words of a request.
_FD, _FLAGS, _EVENTFD = 5, 14, 15
_HAS_EVENTFD = 1

#: io_setup, io_submit, io_getevents. AArch64 uses the generic table of Linux.
_SETUP, _SUBMIT, _GET_EVENTS = (0, 2, 4) if os.uname().machine == "aarch64" else (206, 209, 208)


class _Aio:
    """An AIO context with one request in memory. Raises OSError if the system refuses it."""

    __slots__ = (
        "_address",
        "_context",
        "_events",
        "_events_at",
        "_kernel",
        "_pointer",
        "_request",
        "_unread",
    )

    def __init__(self) -> None:
        import ctypes

        # WHY PyDLL: none of these calls waits, and to give up the GIL takes longer than they do.
        self._kernel = ctypes.PyDLL(None, use_errno=True).syscall
        self._kernel.argtypes = [ctypes.c_long] * 6
        self._kernel.restype = ctypes.c_long
        context = ctypes.c_ulong()
        # This number counts against fs.aio-max-nr.
        if self._kernel(_SETUP, 1, ctypes.addressof(context), 0, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._context = context.value
        # Reads no bytes from the bell itself. That ends at once with EINVAL. The end of the
        # request is what signals.
        request = (ctypes.c_int32 * 16)()
        request[_FLAGS] = _HAS_EVENTFD
        self._request = request
        self._pointer = ctypes.c_void_p(ctypes.addressof(request))
        self._address = ctypes.addressof(self._pointer)
        self._events = ctypes.create_string_buffer(_EVENTS * _EVENT_BYTES)
        self._events_at = ctypes.addressof(self._events)
        self._unread = 0

    def signal(self, fd: int) -> bool:
        if self._unread == _EVENTS:
            self._read_events()
        self._request[_FD] = self._request[_EVENTFD] = fd
        if self._kernel(_SUBMIT, self._context, 1, self._address, 0, 0) != 1:
            return False
        self._unread += 1
        return True

    def _read_events(self) -> None:
        """Makes room for more requests."""
        read = self._kernel(_GET_EVENTS, self._context, 0, _EVENTS, self._events_at, 0)
        self._unread = max(0, self._unread - max(0, read))


_lock = threading.Lock()
_aio: _Aio | None = None
_rings_until_retry = 0


def signal_bell(fd: int) -> bool:
    """False if AIO cannot ring the bell. It was not rung then."""
    global _aio, _rings_until_retry
    with _lock:
        if _aio is None:
            if _rings_until_retry > 0:
                _rings_until_retry -= 1
                return False
            _rings_until_retry = _RINGS_UNTIL_RETRY
            try:
                _aio = _Aio()
            except OSError:
                return False
        return _aio.signal(fd)


def _after_fork_in_child() -> None:
    # The context is the parent's, whose other threads may have held the lock.
    global _aio, _lock
    _aio, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
