"""GPU memory through libcuda: VMM allocations, by POSIX descriptors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading

from ._cuda_library import Entered, call, open_library
from ._fds import is_finalizing
from ._memory import round_up
from .errors import CudaError, CudaIpcError

_POSIX_FD, _PINNED, _ON_DEVICE, _MINIMUM = 1, 1, 1, 0
_PROT_READ, _PROT_READ_WRITE = 1, 3


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


# WHY an RLock: a collection of garbage inside of it may end another memory.
_lock = threading.RLock()
_contexts: dict[int, Context] = {}


class Context:
    """The primary context of a device. It is retained for as long as the process lives."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.device = device.value
        raw = (ctypes.c_ubyte * 16)()
        call("cuDeviceGetUuid_v2", raw, self.device)
        text = bytes(raw).hex()
        self.uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        self._handle = 0

    @property
    def handle(self) -> int:
        with _lock:
            if self._handle == 0:
                context = ctypes.c_void_p()
                call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
                self._handle = context.value or 0
        return self._handle

    def current(self) -> Entered:
        return Entered(self._handle or self.handle)


def _devices() -> list[Context]:
    open_library()
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    for ordinal in range(count.value):
        if ordinal not in _contexts:
            _contexts[ordinal] = Context(ordinal)
    return [_contexts[ordinal] for ordinal in range(count.value)]


def context_of(uuid: str) -> Context:
    """The device with this UUID, as nvidia-smi prints it."""
    wanted = uuid.split("-", 1)[1].lower()
    for context in _devices():
        if context.uuid == wanted:
            return context
    raise CudaIpcError("DEVICE_NOT_FOUND", f"Cannot use {uuid}: this process sees no such device")


def context_at(ordinal: int) -> Context:
    known = _contexts.get(ordinal)
    if known is not None:
        return known
    devices = _devices()
    if ordinal < len(devices):
        return devices[ordinal]
    raise CudaIpcError(
        "DEVICE_NOT_FOUND", f"Cannot use cuda:{ordinal}: this process sees {len(devices)} devices"
    )


class CudaMemory:
    """VMM memory that is mapped here; unmapped when nothing refers to it any more."""

    buffer = None

    def __init__(self, context: Context, handle: int, length: int, readonly: bool) -> None:
        """Maps the handle, and releases it in any case."""
        self.context = context
        self.readonly = readonly
        self.device = (2, context.ordinal)
        self.address = 0
        self._length = length
        try:
            with context.current():
                address = ctypes.c_uint64()
                call("cuMemAddressReserve", ctypes.byref(address), length, 0, 0, 0)
                try:
                    call("cuMemMap", address, length, 0, handle, 0)
                except CudaError:
                    call("cuMemAddressFree", address, length)
                    raise
                self.address = address.value
                flags = _PROT_READ if readonly else _PROT_READ_WRITE
                access = _Access(_Location(_ON_DEVICE, context.device), flags)
                call("cuMemSetAccess", address, length, ctypes.byref(access), 1)
        finally:
            call("cuMemRelease", handle)

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", 0), 0
        if address == 0 or is_finalizing():
            return
        with contextlib.suppress(CudaIpcError), self.context.current():
            # Work that still uses the memory would fail if it were unmapped under it.
            library = open_library()
            library.cuCtxSynchronize()
            library.cuMemUnmap(address, self._length)
            library.cuMemAddressFree(address, self._length)

    def read(self, start: int, length: int) -> bytes:
        copy = (ctypes.c_char * length)()
        if length > 0:
            self.finish()
            with self.context.current():
                call("cuMemcpyDtoH_v2", copy, self.address + start, length)
        return copy.raw

    def write(self, start: int, data: memoryview) -> None:
        if len(data) > 0:
            with self.context.current():
                source = ctypes.c_char_p(bytes(data))
                call("cuMemcpyHtoD_v2", self.address + start, source, len(data))
                # A copy of little memory returns before it has arrived. The default stream does it.
                call("cuStreamSynchronize", None)

    def finish(self) -> None:
        with self.context.current():
            call("cuCtxSynchronize")

    def fds(self) -> list[int]:
        raise NotImplementedError


def import_memory(fd: int, length: int, readonly: bool, uuid: str) -> CudaMemory:
    """Maps memory of another process. The descriptor stays the caller's."""
    context = context_of(uuid)
    handle = ctypes.c_uint64()
    with context.current():
        call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD)
    return CudaMemory(context, handle.value, length, readonly)


class CudaAllocation(CudaMemory):
    """New GPU memory, with the descriptor that shares it."""

    def __init__(self, context: Context, byte_length: int) -> None:
        properties = _AllocationProperties()
        properties.type, properties.handle_types = _PINNED, _POSIX_FD
        properties.location = _Location(_ON_DEVICE, context.device)
        self._fd = -1
        with context.current():
            granularity = ctypes.c_size_t()
            call(
                "cuMemGetAllocationGranularity",
                ctypes.byref(granularity),
                ctypes.byref(properties),
                _MINIMUM,
            )
            self.length = max(granularity.value, round_up(byte_length, granularity.value))
            handle = ctypes.c_uint64()
            call("cuMemCreate", ctypes.byref(handle), self.length, ctypes.byref(properties), 0)
            fd = ctypes.c_int(-1)
            try:
                call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, _POSIX_FD, 0)
            except CudaError:
                call("cuMemRelease", handle)
                raise
        self._fd = fd.value
        os.set_inheritable(self._fd, False)
        super().__init__(context, handle.value, self.length, readonly=False)

    def fds(self) -> list[int]:
        fd, self._fd = self._fd, -1
        return [fd]

    def __del__(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
        super().__del__()


def full_uuid(context: Context) -> str:
    return f"GPU-{context.uuid}"
