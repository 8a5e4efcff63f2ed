"""File descriptors that have several users. The last one closes them."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
import threading
from collections.abc import Iterable

from .errors import CudaIpcError, coded

_lock = threading.Lock()

#: At the end of the interpreter modules may be empty already. The system frees what is left.
is_finalizing = sys.is_finalizing


def reset_after_fork() -> None:
    """In a child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


class SharedFds:
    """Owns descriptors. `share()` adds a user, and `close()` takes one away."""

    __slots__ = ("_users", "fds")

    def __init__(self, fds: Iterable[int]) -> None:
        self.fds = tuple(fds)
        self._users = 1

    def share(self) -> SharedFds:
        """Raises CLOSED if the last user has closed them meanwhile."""
        with _lock:
            if self._users == 0:
                raise CudaIpcError(
                    "CLOSED",
                    "Cannot use the file descriptors of an object: they were closed meanwhile",
                )
            self._users += 1
        return self

    def close(self) -> None:
        with _lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            close_all(self.fds)


class Bell:
    """An eventfd that wakes another process. It belongs to somebody else.

    Another holder can fill it and make its calls block, so neither call may wait. Without AIO a
    holder that fills it at the right moment delays a ring by one or two milliseconds.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def ring(self) -> None:
        # WHY here: most clients ring no bell.
        from ._bell_signal import signal_bell

        if signal_bell(self.fd):
            return
        from ._interrupted import interrupted

        # A full bell has rung.
        os.set_blocking(self.fd, False)
        with contextlib.suppress(BlockingIOError):
            interrupted(lambda: os.eventfd_write(self.fd, 1))

    def silence(self) -> None:
        try:
            os.preadv(self.fd, [bytearray(8)], -1, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        except OSError as cause:
            # Before Linux 5.8.
            if cause.errno != errno.EOPNOTSUPP:
                raise
            from ._interrupted import interrupted

            os.set_blocking(self.fd, False)
            with contextlib.suppress(BlockingIOError):
                interrupted(lambda: os.eventfd_read(self.fd))


def new_bell() -> int:
    """Raises TOO_MANY_FDS."""
    with coded("open an eventfd"):
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)


def new_epoll() -> select.epoll:
    """Raises TOO_MANY_FDS."""
    with coded("open an epoll"):
        return select.epoll()
