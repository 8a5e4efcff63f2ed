"""GPU memory that others have allocated: handles of 64 bytes, pools, and exports of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from typing import Any, NamedTuple

from ._cuda import Context, CudaMemory, context_at
from ._cuda_library import check, declare
from .errors import CudaError, CudaIpcError

HANDLE_BYTES = 64
_LAZY_PEER_ACCESS, _POSIX_FD, _ON_DEVICE, _READ_WRITE = 1, 1, 1, 3
_LEGACY_CAPABLE, _DEVICE_ORDINAL = 10, 9
_INVALID_VALUE, _OWN, _INVALID_HANDLE, _ALREADY_MAPPED = 1, 201, 400, 208


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * HANDLE_BYTES)]


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


# SAFETY: ctypes checks and widens by these; each is the prototype of cuda.h.
_int, _size, _u64, _p = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p
_RANGES: dict[str, list[Any]] = {
    "cuMemGetAddressRange_v2": [_p, _p, _u64],
    "cuPointerGetAttribute": [_p, _int, _u64],
    "cuMemcpyDtoD_v2": [_u64, _u64, _size],
}
_RETAIN: dict[str, list[Any]] = {**_RANGES, "cuMemRetainAllocationHandle": [_p, _u64]}
_LEGACY: dict[str, list[Any]] = {
    **_RANGES,
    "cuIpcGetMemHandle": [_p, _u64],
    "cuIpcOpenMemHandle_v2": [_p, _Handle, ctypes.c_uint],
    "cuIpcCloseMemHandle": [_u64],
}
_POOLS: dict[str, list[Any]] = {
    **_RANGES,
    "cuMemPoolImportFromShareableHandle": [_p, _p, _int, _u64],
    "cuMemPoolSetAccess": [_p, _p, _size],
    "cuMemPoolImportPointer": [_p, _p, _p],
    "cuMemPoolDestroy": [_p],
    "cuMemFree_v2": [_u64],
}

_lock = threading.RLock()


def range_of(context: Context, address: int) -> tuple[int, int]:
    """Start and length of the allocation that this address lies in."""
    library = declare(_RANGES)
    base, length = ctypes.c_uint64(), ctypes.c_size_t()
    with context.current():
        status = library.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(length), address)
    check("cuMemGetAddressRange", status)
    return base.value, length.value


def ordinal_of(address: int) -> int:
    """The device that memory at this address is on."""
    library = declare(_RANGES)
    found = ctypes.c_int(-1)
    with context_at(0).current():
        status = library.cuPointerGetAttribute(ctypes.byref(found), _DEVICE_ORDINAL, address)
    check("cuPointerGetAttribute", status)
    return found.value


def copy_on_device(context: Context, to: int, source: int, byte_length: int) -> None:
    """Waits for the work of the context before and after."""
    library = declare(_RANGES)
    with context.current():
        check("cuCtxSynchronize", library.cuCtxSynchronize())
        check("cuMemcpyDtoD", library.cuMemcpyDtoD_v2(to, source, byte_length))
        check("cuCtxSynchronize", library.cuCtxSynchronize())


class Exported(NamedTuple):
    """A whole allocation of virtual memory, and a descriptor that shares it."""

    base: int
    length: int
    fd: int


def export_address(context: Context, address: int) -> Exported:
    """Raises CudaError for memory that was not allocated to be exported by a descriptor."""
    library = declare(_RETAIN)
    handle, fd = ctypes.c_uint64(), ctypes.c_int(-1)
    with context.current():
        status = library.cuMemRetainAllocationHandle(ctypes.byref(handle), address)
        check("cuMemRetainAllocationHandle", status)
        try:
            status = library.cuMemExportToShareableHandle(ctypes.byref(fd), handle, _POSIX_FD, 0)
            check("cuMemExportToShareableHandle", status)
        finally:
            library.cuMemRelease(handle)
    os.set_inheritable(fd.value, False)
    try:
        base, length = range_of(context, address)
    except BaseException:
        os.close(fd.value)
        raise
    return Exported(base, length, fd.value)


class BorrowedCudaMemory(CudaMemory):
    """Memory that somebody else has mapped here, and keeps mapped while `owner` is referred to."""

    def __init__(self, context: Context, base: int, length: int, owner: object) -> None:
        self.context = context
        self.readonly = False
        self.device = (2, context.ordinal)
        self.address = base
        self._length = length
        self._owner = owner

    def __del__(self) -> None:
        """Its owner unmaps it."""


# ---------------------------------------------------------------- handles of 64 bytes


class ExportedHandle(NamedTuple):
    """A handle names a whole allocation. `byte_offset` is where the address lies in it."""

    handle: bytes
    byte_offset: int
    #: Bytes of the allocation.
    length: int


def handle_of(context: Context, address: int) -> ExportedHandle:
    """Raises UNSUPPORTED for memory that has no such handle."""
    library = declare(_LEGACY)
    capable = ctypes.c_ubyte()
    with context.current():
        status = library.cuPointerGetAttribute(ctypes.byref(capable), _LEGACY_CAPABLE, address)
    if status == 0 and capable.value == 0:
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot make a handle: only memory of cudaMalloc has one, and this memory is of a "
            "pool or of virtual memory",
        )
    check("cuPointerGetAttribute", status)
    base, length = range_of(context, address)
    handle = _Handle()
    with context.current():
        check("cuIpcGetMemHandle", library.cuIpcGetMemHandle(ctypes.byref(handle), base))
    return ExportedHandle(bytes(handle.reserved), address - base, length)


_opened: weakref.WeakValueDictionary[bytes, LegacyMemory] = weakref.WeakValueDictionary()


class LegacyMemory(CudaMemory):
    """Memory of another process, opened by its handle; closed when nothing refers to it."""

    def __init__(self, context: Context, handle: bytes) -> None:
        library = declare(_LEGACY)
        self.context = context
        self.readonly = False
        self.device = (2, context.ordinal)
        self.address = 0
        self._library = library
        given = _Handle((ctypes.c_ubyte * HANDLE_BYTES)(*handle))
        address = ctypes.c_uint64()
        with context.current():
            status = library.cuIpcOpenMemHandle_v2(ctypes.byref(address), given, _LAZY_PEER_ACCESS)
        if status == _OWN:
            raise CudaIpcError(
                "OWN_HANDLE", "Cannot open a handle: this process has made it itself"
            )
        if status in (_INVALID_VALUE, _INVALID_HANDLE, _ALREADY_MAPPED):
            raise CudaIpcError(
                "INVALID_HANDLE",
                f"Cannot open a handle: the driver knows no memory behind it (error {status})",
            )
        check("cuIpcOpenMemHandle", status)
        self.address = address.value
        _, self.length = range_of(context, self.address)

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", 0), 0
        if address != 0:
            with contextlib.suppress(CudaIpcError), self.context.current():
                self._library.cuCtxSynchronize()
                self._library.cuIpcCloseMemHandle(address)


def open_handle(context: Context, handle: bytes) -> LegacyMemory:
    """Opens a handle once, however often it is asked for: the driver counts no opens."""
    with _lock:
        memory = _opened.get(handle)
        if memory is None or memory.address == 0:
            memory = LegacyMemory(context, handle)
            _opened[handle] = memory
        return memory


# ---------------------------------------------------------------- pools


class ImportedPool:
    """A pool of another process. Its memory stays usable after the pool was dropped."""

    def __init__(self, context: Context, fd: int) -> None:
        """The descriptor stays the caller's."""
        library = declare(_POOLS)
        self.context = context
        self._library = library
        self._pool = ctypes.c_void_p()
        self._opened: weakref.WeakValueDictionary[bytes, PooledMemory] = (
            weakref.WeakValueDictionary()
        )
        with context.current():
            status = library.cuMemPoolImportFromShareableHandle(
                ctypes.byref(self._pool), ctypes.c_void_p(fd), _POSIX_FD, 0
            )
            check("cuMemPoolImportFromShareableHandle", status)
            access = _Access(_Location(_ON_DEVICE, context.device), _READ_WRITE)
            status = library.cuMemPoolSetAccess(self._pool, ctypes.byref(access), 1)
        check("cuMemPoolSetAccess", status)

    def open(self, data: bytes) -> PooledMemory:
        """The allocation that these 64 bytes name. It is imported once at a time."""
        with _lock:
            memory = self._opened.get(data)
            if memory is None or memory.address == 0:
                memory = PooledMemory(self, self._import(data))
                self._opened[data] = memory
            return memory

    def _import(self, data: bytes) -> int:
        address = ctypes.c_uint64()
        given = (ctypes.c_ubyte * HANDLE_BYTES)(*data)
        with self.context.current():
            status = self._library.cuMemPoolImportPointer(ctypes.byref(address), self._pool, given)
        if status in (_INVALID_VALUE, _INVALID_HANDLE):
            raise CudaIpcError(
                "INVALID_HANDLE", "Cannot open memory of a pool: the pool has no such memory"
            )
        check("cuMemPoolImportPointer", status)
        return address.value

    def __del__(self) -> None:
        pool, self._pool = getattr(self, "_pool", None), ctypes.c_void_p()
        if pool:
            with contextlib.suppress(CudaIpcError), self.context.current():
                self._library.cuMemPoolDestroy(pool)


class PooledMemory(CudaMemory):
    """One allocation of an imported pool."""

    def __init__(self, pool: ImportedPool, address: int) -> None:
        self.context = pool.context
        self.readonly = False
        self.device = (2, pool.context.ordinal)
        self.address = address
        # WHY: the last import is to end before the pool does.
        self._pool = pool
        try:
            base, length = range_of(pool.context, address)
            self.length = length - (address - base)
        except CudaError:
            # Drivers do not always know the range of such memory.
            self.length = -1

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", 0), 0
        if address != 0:
            with contextlib.suppress(CudaIpcError), self.context.current():
                self._pool._library.cuCtxSynchronize()
                self._pool._library.cuMemFree_v2(address)
