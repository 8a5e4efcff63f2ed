"""Files that this user alone writes, and locks that the kernel releases when their holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct

from ._protocol import LIMIT_SOCKET_PATH_BYTES
from .errors import CudaIpcError, system_error

#: Far more often than other processes can replace a file between two steps.
_ATTEMPTS = 100


def open_own_file(path: str, flags: int = os.O_RDWR) -> int:
    """Opens a plain file of this user, made with mode 0600 if it is missing.

    Raises PERMISSION_DENIED if it is anything else.
    """
    attempt = f"open {path}"
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise system_error(attempt, cause) from cause
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        # A umask such as 0777 takes bits of the owner, too. The next open would fail.
        if found.st_mode & 0o600 != 0o600:
            os.fchmod(fd, 0o600)
        return fd
    os.close(fd)
    raise CudaIpcError(
        "PERMISSION_DENIED", f"Cannot {attempt}: it is no plain file of user {os.geteuid()}"
    )


def try_lock_file(path: str) -> int | None:
    """Locks the file until the descriptor is closed. None if another process has the lock.

    The holder has two locks. Only the second kind can be looked at without being taken.
    """
    fd = open_own_file(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_locked(path: str) -> bool:
    """Whether another process has the lock. False if this user may not look."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # WHY not taken for a moment: that could keep a hub from starting.
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_RDLCK))
        return bool(struct.unpack_from("=h", found)[0] != fcntl.F_UNLCK)
    except OSError:
        return _cannot_share(fd)
    finally:
        os.close(fd)


def _cannot_share(fd: int) -> bool:
    """Takes the lock for a moment, on a system without F_OFD_GETLK."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def lock_holder(path: str) -> int | None:
    """Who signed the lock, if it is locked. None if that is unknown."""
    if not is_locked(path):
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return int(os.read(fd, 16).split()[0])
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        return None


def _whole_file(kind: int) -> bytes:
    """A struct flock: type, whence, start, length, pid."""
    return struct.pack("=hh4xqqi4x", kind, os.SEEK_SET, 0, 0, 0)


def listen_at(listener: socket.socket, path: str, backlog: int) -> None:
    """Listens at a path that this process has claimed. The file appears with a listener behind it.

    Raises OSError.
    """
    early = f"{path}.new"
    folder = -1
    if len(os.fsencode(early)) > LIMIT_SOCKET_PATH_BYTES:
        import hashlib

        # The system takes no longer path, but follows this one. The name alone may be too long.
        name = hashlib.sha256(os.fsencode(os.path.basename(path))).hexdigest()[:16]
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        early = f"/proc/self/fd/{folder}/{name}.new"
    try:
        _remove_stale_socket(early)  # An earlier process was killed before it could rename it.
        listener.bind(early)
        try:
            os.chmod(early, 0o600)
            listener.listen(backlog)
            os.rename(early, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(early)
            raise
    finally:
        if folder >= 0:
            os.close(folder)


def unlock_file(fd: int) -> None:
    """Unlocks the file and closes it. WHY both: a child of fork may have the descriptor, too."""
    try:
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_UNLCK))
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


class SocketClaim:
    """The right to listen at a path. So a socket file that nobody has claimed was left by a death.

    Leave it after the socket file is removed.
    """

    def __init__(self, path: str, fd: int) -> None:
        self._lock_path = path
        self._fd = fd

    @staticmethod
    def try_make(socket_path: str) -> SocketClaim | None:
        """Claims the path and removes a stale socket file. None if another process has the claim.

        Raises FILE_EXISTS if a file that is no socket is there, PERMISSION_DENIED.
        """
        lock_path = f"{socket_path}.lock"
        for _ in range(_ATTEMPTS):
            fd = try_lock_file(lock_path)
            if fd is None:
                return None
            # The last holder may have removed the file between our open and our lock.
            if _is_at(lock_path, fd):
                claim = SocketClaim(lock_path, fd)
                try:
                    _remove_stale_socket(socket_path)
                except BaseException:
                    claim.release()
                    raise
                return claim
            os.close(fd)
        raise CudaIpcError(
            "UNTRUSTED_PEER",
            f"Cannot listen at {socket_path}: its lock file is replaced again and again",
        )

    def release(self) -> None:
        # WHY in this order: who opened the file before its removal learns that from `_is_at`.
        with contextlib.suppress(OSError):
            os.unlink(self._lock_path)
        self.abandon()

    def abandon(self) -> None:
        """In a child of fork: the lock lasts until the parent has closed it, too."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _is_at(path: str, fd: int) -> bool:
    try:
        named, opened = os.lstat(path), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (named.st_ino, named.st_dev) == (opened.st_ino, opened.st_dev)


def _remove_stale_socket(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise CudaIpcError(
            "FILE_EXISTS", f"Cannot listen at {path}: a file that is no socket is there"
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
