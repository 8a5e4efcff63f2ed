"""Bounds a system call that another process can make wait.

A timer of the kernel sends a signal to this thread each millisecond, so the call ends with EINTR.
WHY a repeated signal: the first can arrive before the call begins to wait.
See `src/os/interrupted-call.ts`, which does the same.
"""

from __future__ import annotations

import os
import signal
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_NS_BETWEEN_SIGNALS = 1_000_000
_CLOCK_MONOTONIC = 1
_SIGEV_THREAD_ID = 4
#: Handlers of the Go runtime, if a library brings it, require this flag of all handlers.
_SA_ONSTACK = 0x0800_0000
#: Real-time signals that neither a C library nor Python uses. The first unused one is taken.
_SIGNALS = (60, 59, 58, 57, 56, 55)
_TIMES = struct.pack("<4q", 0, _NS_BETWEEN_SIGNALS, 0, _NS_BETWEEN_SIGNALS)

#: timer_create, timer_settime, timer_delete. AArch64 uses the generic table of Linux.
_CREATE, _SET, _DELETE = (107, 110, 111) if os.uname().machine == "aarch64" else (222, 223, 226)

_signal: int | None = None
_libc: ctypes.CDLL | None = None


def interrupted(call: Callable[[], object]) -> None:
    """Runs a function that makes one system call, which ends after one or two milliseconds.

    The function must not repeat a call that ended with EINTR. If the system has no timers or the
    process no free signal, the call is not bounded.
    """
    import ctypes

    global _libc, _signal
    if _libc is None or _signal is None:
        _libc = ctypes.CDLL(None)
        _signal = next((number for number in _SIGNALS if _take(_libc, number)), 0)
    libc = _libc
    timer = ctypes.c_int()
    event = struct.pack("<QiiI44x", 0, _signal, _SIGEV_THREAD_ID, threading.get_native_id())
    if not _signal or libc.syscall(_CREATE, _CLOCK_MONOTONIC, event, ctypes.byref(timer)) < 0:
        call()
        return
    # A parent can have left the signal blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {_signal})
    try:
        libc.syscall(_SET, timer, 0, _TIMES, None)
        call()
    except InterruptedError:
        pass
    finally:
        libc.syscall(_DELETE, timer)


def _take(libc: ctypes.CDLL, number: int) -> bool:
    """Gives the signal a handler that does nothing, if it has none."""
    import ctypes

    # handler 0:8, mask 8:128, flags 136:4, restorer 144:8
    found = ctypes.create_string_buffer(152)
    if libc.sigaction(number, None, found) != 0 or struct.unpack_from("<Q", found)[0] != 0:
        return False
    # WHY abs: a C function that takes an int and changes nothing. WHY no SA_RESTART: the signal
    # must end the call.
    handler = ctypes.cast(libc.abs, ctypes.c_void_p).value
    wanted = struct.pack("<Q128xi4xQ", handler, _SA_ONSTACK, 0)
    return bool(libc.sigaction(number, wanted, None) == 0)
