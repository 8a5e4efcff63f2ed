"""Host memory: sealed memory files, and mappings of them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import mmap
import os
import stat
import sys
from collections.abc import Callable
from typing import Any, Protocol

from ._deadline import Deadline
from ._host_capacity import available_bytes, refuse_over_capacity
from ._layout import require
from .errors import error, system_error

# Python 3.10 lacks names for these. They are part of Linux's interface.
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE = 1, 2, 4, 8
# Python before 3.13 lacks a name for this.
_MAP_NORESERVE = 0x4000
SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW


#: Raises if the attempt must end.
Check = Callable[[str], object]
#: Takes all pages of a memory file of this length.
Take = Callable[[int, int], None]


class Memory(Protocol):
    """Memory that is mapped here. It stays mapped while anything refers to it."""

    readonly: bool
    #: Of DLPack: 1 host, 2 CUDA; and the ordinal.
    device: tuple[int, int]

    @property
    def buffer(self) -> memoryview | None:
        """All of it, on the host."""

    @property
    def address(self) -> int: ...

    def read(self, start: int, length: int) -> bytes: ...

    def write(self, start: int, data: memoryview) -> None: ...

    def finish(self) -> None:
        """Waits for work of this process on the memory."""

    def fds(self) -> list[int]:
        """Hands over the descriptors as `create` sends them. Call it once."""


def is_on_gpu(memory: Memory | None) -> bool:
    return memory is not None and memory.buffer is None


def create_file(length: int, content: bytes = b"", seals: int = F_SEAL_SEAL) -> int:
    """A new memory file whose size is sealed. Returns its descriptor. Raises OUT_OF_MEMORY."""
    refuse_over_capacity(length)
    try:
        fd = os.memfd_create("cuda-ipc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, length)
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            fcntl.fcntl(fd, F_ADD_SEALS, SIZE_SEALS | seals)
            # Memory files begin with mode 0777. Other users who may read could open it anew.
            os.fchmod(fd, 0o644)
        except BaseException:
            os.close(fd)
            raise
    except OSError as cause:
        raise system_error(f"make memory of {length} bytes", cause) from cause
    return fd


#: Bytes of a preallocation between two checks: it takes half a millisecond.
_PREALLOCATED_AT_A_TIME = 1 << 21
#: Bytes after which it asks again how much memory is left.
_CAPACITY_CHECKED_EACH = 1 << 24


def preallocate_file(fd: int, length: int, deadline: Deadline, check: Check) -> None:
    """Takes all pages of a memory file now, not when they are first touched.

    Other threads run meanwhile. `check` is called between pieces. Raises OUT_OF_MEMORY, TIMEOUT,
    ABORTED.
    """
    for at in range(0, length, _PREALLOCATED_AT_A_TIME):
        deadline.check()
        check(deadline.attempt)
        failed = (
            f"Cannot {deadline.attempt}: only {at} of its {length} bytes could be preallocated: "
        )
        if at > 0 and at % _CAPACITY_CHECKED_EACH == 0:
            # WHY: at the limit of a control group the kernel ends the process and not the call.
            available = available_bytes()
            if available is not None and length - at > available:
                raise error("OUT_OF_MEMORY", f"{failed}{available} bytes are available")
        try:
            os.posix_fallocate(fd, at, min(_PREALLOCATED_AT_A_TIME, length - at))
        except OSError as cause:
            # The pages of a memory file are memory, and not of a disk.
            lacks = cause.errno in (errno.ENOSPC, errno.ENOMEM)
            code = "OUT_OF_MEMORY" if lacks else "SYSTEM_ERROR"
            found = f"{errno.errorcode.get(cause.errno or 0, 'error')}, {cause.strerror}"
            raise error(code, failed + found) from cause


def check_file(fd: int, length: int, what: str, exact: bool = False) -> None:
    """Checks that it is a memory file that nobody can resize. Another resize would kill us."""
    found = os.fstat(fd)
    require(stat.S_ISREG(found.st_mode), f"{what} is no memory file")
    try:
        seals = fcntl.fcntl(fd, F_GET_SEALS)
    except OSError:
        seals = 0
    require(seals & SIZE_SEALS == SIZE_SEALS, f"{what} is not sealed against resizing")
    fits = found.st_size == length if exact else found.st_size >= length
    require(fits, f"{what} has {found.st_size} bytes, wanted {length}")
    # A hole in huge pages can end whoever touches it (SIGBUS). Their file system has larger blocks.
    require(os.fstatvfs(fd).f_bsize <= mmap.PAGESIZE, f"{what} lies in huge pages")
    held = found.st_blocks * 512
    require(held <= round_up(found.st_size, found.st_blksize), f"{what} has memory of {held} bytes")


def map_file(fd: int, length: int, writable: bool, private: bool = False) -> mmap.mmap:
    """With `private`, what is written goes to copies of the pages that only this process has."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable or private else 0)
    # WHY without a reserve: a model may be larger than what is free, and few pages are written.
    flags = mmap.MAP_PRIVATE | _MAP_NORESERVE if private else mmap.MAP_SHARED
    # Before 3.13 each mapping keeps a descriptor of its own.
    options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    try:
        return mmap.mmap(fd, length, flags=flags, prot=protection, **options)
    except (OSError, ValueError, OverflowError) as cause:
        wrong = cause if isinstance(cause, OSError) else OSError(22, str(cause))
        if writable and wrong.errno in (errno.EACCES, errno.EPERM):
            raise error("READ_ONLY", "Cannot write: the memory came for reading") from cause
        raise system_error(f"map {length} bytes", wrong) from cause


def address_of(mapped: memoryview) -> int:
    # WHY here: to load ctypes takes milliseconds, and many programs need none of it.
    import ctypes

    # SAFETY: the layout of Py_buffer is part of the stable ABI. Its first word is the address.
    api = ctypes.pythonapi
    api.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    api.PyBuffer_Release.argtypes = [ctypes.c_void_p]
    api.PyBuffer_Release.restype = None
    buffer = (ctypes.c_size_t * 16)()
    api.PyObject_GetBuffer(mapped, buffer, 0)
    address = int(buffer[0])
    api.PyBuffer_Release(buffer)
    return address


#: Bytes. Into new memory they take a millisecond or two.
COPIED_AT_A_TIME = 1 << 20


class HostMemory:
    """A memory file that is mapped. Views keep it mapped; nothing unmaps it under them."""

    device = (1, 0)

    def __init__(self, fd: int, length: int, readonly: bool, private: bool = False) -> None:
        self.readonly = readonly and not private
        mapped = map_file(fd, length, not readonly, private)
        self.buffer = memoryview(mapped)

    @functools.cached_property
    def address(self) -> int:
        return address_of(self.buffer)

    def read(self, start: int, length: int) -> bytes:
        return bytes(self.buffer[start : start + length])

    def write(self, start: int, data: memoryview) -> None:
        if len(data) <= COPIED_AT_A_TIME:
            self.buffer[start : start + len(data)] = data
            return
        # WHY in pieces: a copy keeps Python's lock, and the event loop of another thread needs it.
        for at in range(0, len(data), COPIED_AT_A_TIME):
            piece = data[at : at + COPIED_AT_A_TIME]
            self.buffer[start + at : start + at + len(piece)] = piece

    def finish(self) -> None:
        """The CPU has written by the time that it returns."""

    def fds(self) -> list[int]:
        raise NotImplementedError


class HostAllocation(HostMemory):
    """New host memory, with the descriptor of its file."""

    # If the file cannot be made.
    _fd = -1

    def __init__(self, length: int, take: Take | None = None) -> None:
        self._fd = create_file(length)
        try:
            if take is not None:
                take(self._fd, length)
            super().__init__(self._fd, length, readonly=False)
        except BaseException:
            self._close()
            raise

    def fds(self) -> list[int]:
        fd, self._fd = self._fd, -1
        return [fd]

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def round_up(value: int, step: int) -> int:
    return -(-value // step) * step
