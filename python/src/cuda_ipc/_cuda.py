"""GPU memory through libcuda: VMM allocations, by POSIX descriptors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

from ._memory import round_up
from .errors import CudaError, CudaIpcError

_POSIX_FD, _PINNED, _ON_DEVICE, _MINIMUM = 1, 1, 1, 0
_PROT_READ, _PROT_READ_WRITE = 1, 3
_CODES = {
    2: "OUT_OF_MEMORY",
    3: "DEVICE_LOST",
    4: "DEVICE_LOST",
    700: "DEVICE_LOST",
    719: "DEVICE_LOST",
    801: "UNSUPPORTED",
    805: "MPS_UNAVAILABLE",
}


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


# SAFETY: ctypes checks and widens by these; each is the prototype of cuda.h.
_int, _size, _u64, _p = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p
_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGetCount": [_p],
    "cuDeviceGet": [_p, _int],
    "cuDeviceGetUuid_v2": [_p, _int],
    "cuDevicePrimaryCtxRetain": [_p, _int],
    "cuCtxPushCurrent_v2": [_p],
    "cuCtxPopCurrent_v2": [_p],
    "cuCtxSynchronize": [],
    "cuGetErrorName": [_int, _p],
    "cuMemGetAllocationGranularity": [_p, _p, _int],
    "cuMemCreate": [_p, _size, _p, _u64],
    "cuMemExportToShareableHandle": [_p, _u64, _int, _u64],
    "cuMemImportFromShareableHandle": [_p, _p, _int],
    "cuMemAddressReserve": [_p, _size, _size, _u64, _u64],
    "cuMemAddressFree": [_u64, _size],
    "cuMemMap": [_u64, _size, _size, _u64, _u64],
    "cuMemUnmap": [_u64, _size],
    "cuMemSetAccess": [_u64, _size, _p, _size],
    "cuMemRelease": [_u64],
    "cuMemcpyDtoH_v2": [_p, _u64, _size],
    "cuMemcpyHtoD_v2": [_u64, _p, _size],
}

# WHY an RLock: a collection of garbage inside of it may end another memory.
_lock = threading.RLock()
_library: ctypes.CDLL | None = None
_contexts: dict[int, Context] = {}


def _open_library() -> ctypes.CDLL:
    global _library
    with _lock:
        if _library is None:
            try:
                library = ctypes.CDLL("libcuda.so.1")
            except OSError as missing:
                raise CudaIpcError(
                    "DRIVER_NOT_FOUND", f"Cannot open libcuda.so.1: {missing}"
                ) from missing
            _prepare(library, _PROTOTYPES)
            _library = library
            check("cuInit", library.cuInit(0))
    return _library


def _prepare(library: ctypes.CDLL, prototypes: dict[str, list[Any]]) -> None:
    for name, arguments in prototypes.items():
        function = getattr(library, name, None)
        if function is None:
            raise CudaIpcError("DRIVER_TOO_OLD", f"Cannot use the CUDA driver: it has no {name}")
        function.argtypes, function.restype = arguments, _int


def declare(prototypes: dict[str, list[Any]]) -> ctypes.CDLL:
    """The library, after a check that it has these functions, too. Raises DRIVER_TOO_OLD."""
    library = _open_library()
    _prepare(library, prototypes)
    return library


def check(call: str, status: int) -> None:
    """Raises the error of a call that failed."""
    if status == 0:
        return
    text = ctypes.c_char_p()
    name = f"CUDA error {status}"
    if _library is not None and _library.cuGetErrorName(status, ctypes.byref(text)) == 0:
        name = (text.value or b"").decode()
    raise CudaError(
        _CODES.get(status, "CUDA_ERROR"), f"Cannot use the GPU: {call} failed with {name}", name
    )


def _call(name: str, *arguments: Any) -> None:
    check(name, getattr(_open_library(), name)(*arguments))


class Context:
    """The primary context of a device. It is retained for as long as the process lives."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        device = ctypes.c_int()
        _call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.device = device.value
        raw = (ctypes.c_ubyte * 16)()
        _call("cuDeviceGetUuid_v2", raw, self.device)
        text = bytes(raw).hex()
        self.uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        self._context = ctypes.c_void_p()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        with _lock:
            if not self._context:
                context = ctypes.byref(self._context)
                check(
                    "cuDevicePrimaryCtxRetain",
                    _library.cuDevicePrimaryCtxRetain(context, self.device),  # type: ignore[union-attr]
                )
        _call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _devices() -> list[Context]:
    _open_library()
    count = ctypes.c_int()
    _call("cuDeviceGetCount", ctypes.byref(count))
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
                _call("cuMemAddressReserve", ctypes.byref(address), length, 0, 0, 0)
                try:
                    _call("cuMemMap", address, length, 0, handle, 0)
                except CudaError:
                    _call("cuMemAddressFree", address, length)
                    raise
                self.address = address.value
                flags = _PROT_READ if readonly else _PROT_READ_WRITE
                access = _Access(_Location(_ON_DEVICE, context.device), flags)
                _call("cuMemSetAccess", address, length, ctypes.byref(access), 1)
        finally:
            _call("cuMemRelease", handle)

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", 0), 0
        if address == 0 or _library is None:
            return
        with contextlib.suppress(CudaIpcError), self.context.current():
            # Work that still uses the memory would fail if it were unmapped under it.
            _library.cuCtxSynchronize()
            _library.cuMemUnmap(address, self._length)
            _library.cuMemAddressFree(address, self._length)

    def read(self, start: int, length: int) -> bytes:
        copy = (ctypes.c_char * length)()
        if length > 0:
            self.finish()
            with self.context.current():
                _call("cuMemcpyDtoH_v2", copy, self.address + start, length)
        return copy.raw

    def write(self, start: int, data: memoryview) -> None:
        if len(data) > 0:
            with self.context.current():
                source = ctypes.c_char_p(bytes(data))
                _call("cuMemcpyHtoD_v2", self.address + start, source, len(data))
                _call("cuCtxSynchronize")

    def finish(self) -> None:
        with self.context.current():
            _call("cuCtxSynchronize")

    def fds(self) -> list[int]:
        raise NotImplementedError


def import_memory(fd: int, length: int, readonly: bool, uuid: str) -> CudaMemory:
    """Maps memory of another process. The descriptor stays the caller's."""
    context = context_of(uuid)
    handle = ctypes.c_uint64()
    with context.current():
        _call(
            "cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD
        )
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
            _call(
                "cuMemGetAllocationGranularity",
                ctypes.byref(granularity),
                ctypes.byref(properties),
                _MINIMUM,
            )
            self.length = max(granularity.value, round_up(byte_length, granularity.value))
            handle = ctypes.c_uint64()
            _call("cuMemCreate", ctypes.byref(handle), self.length, ctypes.byref(properties), 0)
            fd = ctypes.c_int(-1)
            try:
                _call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, _POSIX_FD, 0)
            except CudaError:
                _call("cuMemRelease", handle)
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
