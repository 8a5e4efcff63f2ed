"""The CUDA driver's library: its functions, its errors, and the context that is current."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from .errors import CudaError, CudaIpcError

_CODES = {
    2: "OUT_OF_MEMORY",
    3: "DEVICE_LOST",
    4: "DEVICE_LOST",
    700: "DEVICE_LOST",
    719: "DEVICE_LOST",
    801: "UNSUPPORTED",
    805: "MPS_UNAVAILABLE",
}

# SAFETY: ctypes checks and widens by these; each is the prototype of cuda.h.
_int, _size, _u64, _p = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p
_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGetCount": [_p],
    "cuDeviceGet": [_p, _int],
    "cuDeviceGetUuid_v2": [_p, _int],
    "cuDevicePrimaryCtxRetain": [_p, _int],
    "cuCtxGetCurrent": [_p],
    "cuCtxPushCurrent_v2": [_p],
    "cuCtxPopCurrent_v2": [_p],
    "cuCtxSynchronize": [],
    "cuStreamSynchronize": [_p],
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


def open_library() -> ctypes.CDLL:
    global _library
    if _library is not None:
        return _library
    with _lock:
        if _library is None:
            try:
                library = ctypes.CDLL("libcuda.so.1")
            except OSError as missing:
                raise CudaIpcError(
                    "DRIVER_NOT_FOUND", f"Cannot open libcuda.so.1: {missing}"
                ) from missing
            _prepare(library, _PROTOTYPES)
            check("cuInit", library.cuInit(0), library)
            _library = library
    return _library


def _prepare(library: ctypes.CDLL, prototypes: dict[str, list[Any]]) -> None:
    for name, arguments in prototypes.items():
        function = getattr(library, name, None)
        if function is None:
            raise CudaIpcError("DRIVER_TOO_OLD", f"Cannot use the CUDA driver: it has no {name}")
        function.argtypes, function.restype = arguments, _int


def declare(prototypes: dict[str, list[Any]]) -> ctypes.CDLL:
    """The library, after a check that it has these functions, too. Raises DRIVER_TOO_OLD."""
    library = open_library()
    _prepare(library, prototypes)
    return library


def check(call: str, status: int, library: ctypes.CDLL | None = None) -> None:
    """Raises the error of a call that failed."""
    if status == 0:
        return
    library = library or _library
    text = ctypes.c_char_p()
    name = f"CUDA error {status}"
    if library is not None and library.cuGetErrorName(status, ctypes.byref(text)) == 0:
        name = (text.value or b"").decode()
    raise CudaError(
        _CODES.get(status, "CUDA_ERROR"), f"Cannot use the GPU: {call} failed with {name}", name
    )


def call(name: str, *arguments: Any) -> None:
    check(name, getattr(open_library(), name)(*arguments))


def current_context() -> int:
    """The context that is current on this thread; 0 if none is."""
    found = ctypes.c_void_p()
    check("cuCtxGetCurrent", open_library().cuCtxGetCurrent(ctypes.byref(found)))
    return found.value or 0


class Entered:
    """Within it, this context is current. One that is current already stays so: that costs less."""

    __slots__ = ("_context", "_is_pushed")

    def __init__(self, context: int) -> None:
        self._context = context
        self._is_pushed = False

    def __enter__(self) -> None:
        if current_context() != self._context:
            call("cuCtxPushCurrent_v2", self._context)
            self._is_pushed = True

    def __exit__(self, *_: object) -> None:
        if self._is_pushed:
            call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
