"""GPU memory by the handles of other programs: PyTorch, Numba, CuPy, cuda.core, and C.

Handles travel any way you like. They keep nothing alive: the process that made one must keep the
memory until the other one has closed it. Nothing can tell whether a handle is still valid.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._choices import DTypeLike, DTypeName
from ._device_names import Device, gpu_ordinal
from ._dtypes import dtype_of
from ._keywords import explains_keywords
from ._layout import Layout, checked_shape, packed_strides
from ._waiting import async_form
from .arrays import Array, HandleState
from .errors import CudaIpcError

__all__ = [
    "Pool",
    "RawHandle",
    "handle_of",
    "handle_of_async",
    "open_handle",
    "open_pool",
    "plain_handle",
]

_BYTES = 64
#: PyTorch 2.5 and newer put the version of their form, and one letter, before the 64 bytes.
_TORCH_BYTES = _BYTES + 2
_TORCH_CUDA_MALLOC, _TORCH_EXPANDABLE = ord("c"), ord("e")
#: For an expandable segment it sends a header of 24 bytes, and 4 bytes for each part.
_SEGMENT_HEADER_BYTES, _SEGMENT_PART_BYTES = 24, 4


class RawHandle(NamedTuple):
    """A handle of 64 bytes, and the array in the allocation that it names."""

    handle: bytes
    dtype: DTypeName
    shape: tuple[int, ...]
    #: In elements.
    strides: tuple[int, ...]
    #: From the start of the allocation to the first element.
    byte_offset: int

    def document(self) -> dict[str, Any]:
        """As JSON, for `IpcArrayHandle.from(document).open(device)` in Node."""
        return {
            "format": "cuda-ipc",
            "version": 1,
            "kind": "raw-handle",
            "handle": base64.b64encode(self.handle).decode(),
            "array": {
                "dtype": self.dtype,
                "shape": list(self.shape),
                "strides": list(self.strides),
                "byteOffset": self.byte_offset,
            },
        }


def _may_be_segment(length: int) -> bool:
    parts, rest = divmod(length - 2 - _SEGMENT_HEADER_BYTES, _SEGMENT_PART_BYTES)
    return length != _BYTES and parts >= 1 and rest == 0


def plain_handle(handle: bytes | bytearray | memoryview | Sequence[int] | str) -> bytes:
    """The 64 bytes of CUDA's handle, of what a program sends as one.

    `handle` is bytes, a sequence of numbers, or base64. PyTorch 2.5 and newer send 66 bytes: the
    version of PyTorch's form, then "c" for memory of cudaMalloc or "e" for expandable segments,
    then the rest. Numba sends signed bytes. Raises INVALID_HANDLE; UNSUPPORTED for expandable
    segments, which have no handle of 64 bytes.
    """
    if isinstance(handle, str):
        try:
            raw = base64.b64decode(handle, validate=True)
        except ValueError as wrong:
            raise CudaIpcError("INVALID_HANDLE", f"Cannot read a handle: {wrong}") from wrong
    elif isinstance(handle, (bytes, bytearray, memoryview)):
        raw = bytes(handle)
    else:
        raw = bytes(int(byte) & 255 for byte in handle)
    if _may_be_segment(len(raw)) and raw[1] == _TORCH_EXPANDABLE:
        raise CudaIpcError(
            "UNSUPPORTED",
            f"Cannot open a handle of PyTorch (form {raw[0]}): its memory is an expandable "
            "segment. Start that program without expandable_segments in PYTORCH_CUDA_ALLOC_CONF, "
            "or share the tensor by hub.share()",
        )
    if len(raw) == _TORCH_BYTES and raw[1] == _TORCH_CUDA_MALLOC:
        return raw[2:]
    if len(raw) != _BYTES:
        raise CudaIpcError(
            "INVALID_HANDLE", f"Cannot read a handle: it has {len(raw)} bytes, wanted {_BYTES}"
        )
    return raw


def handle_of(tensor: Any) -> RawHandle:
    """The handle of a GPU array of PyTorch, CuPy, Numba or JAX, in memory of cudaMalloc.

    It waits for the GPU's work on it. Keep the array while others use it. Raises UNSUPPORTED for
    host memory, and for memory of a pool (cudaMallocAsync) or of virtual memory; and as `share`.
    """
    from ._foreign import foreign

    source = foreign(tensor)
    if source.device[0] != 2:
        raise CudaIpcError("UNSUPPORTED", "Cannot make a handle: only GPU memory has one")
    from ._cuda import context_at
    from ._cuda_handles import BorrowedCudaMemory
    from ._cuda_handles import handle_of as handle_at

    context = context_at(source.device[1])
    found = handle_at(context, source.address)
    BorrowedCudaMemory(context, source.address, source.layout.nbytes, source.owner).finish()
    layout = source.layout
    return RawHandle(
        found.handle, layout.dtype.name, layout.shape, layout.strides, found.byte_offset
    )


handle_of_async = async_form(handle_of)


@explains_keywords
def open_handle(
    handle: bytes | bytearray | memoryview | Sequence[int] | str | RawHandle,
    dtype: DTypeLike | None = None,
    shape: int | Sequence[int] | None = None,
    *,
    strides: Sequence[int] | None = None,
    byte_offset: int = 0,
    device: Device | None = None,
) -> Array:
    """Opens the array behind a handle of another process, without a copy.

    A bare handle does not say what lies behind it: give `dtype`, `shape`, `strides` (in elements)
    and `byte_offset` (from the start of the allocation, as PyTorch, CuPy and Numba send it). A
    `RawHandle` has them. `device` is "cuda:N", N or a `torch.device`; by default CUDA_IPC_DEVICE if
    it is a GPU, else "cuda:0". The memory stays open until nothing views it any more. Raises
    INVALID_HANDLE, OWN_HANDLE in the process that made it, INVALID_DESCRIPTOR if the array exceeds
    the allocation, INVALID_DEVICE, DEVICE_NOT_FOUND.
    """
    if isinstance(handle, RawHandle):
        dtype, shape, strides = handle.dtype, handle.shape, handle.strides
        byte_offset, handle = handle.byte_offset, handle.handle
    layout = _layout(dtype, shape, strides, byte_offset)
    raw = plain_handle(handle)
    from ._cuda_handles import open_handle as open_at

    memory = open_at(_context(device), raw)
    _check_inside(layout, memory.length)
    return Array(HandleState("handle"), memory, layout)


class Pool:
    """A memory pool of another process."""

    def __init__(self, imported: Any) -> None:
        self._imported = imported

    def open(
        self,
        data: Any,
        dtype: DTypeLike = "uint8",
        shape: int | Sequence[int] | None = None,
        *,
        strides: Sequence[int] | None = None,
        byte_offset: int = 0,
        byte_length: int | None = None,
    ) -> Array:
        """Opens an array in memory of the pool, without a copy.

        `data` is the 64 bytes that name the allocation, or an `IPCBufferDescriptor` of cuda.core.
        Without `shape` it is all of the buffer. `byte_length` is the size of the allocation, which
        a descriptor of cuda.core says itself. Raises INVALID_HANDLE, INVALID_DESCRIPTOR,
        ValueError.
        """
        size = byte_length
        if not isinstance(data, (bytes, bytearray, memoryview)):
            # Versions of cuda.core agree in what a descriptor pickles, not in its attributes.
            data, its_size = data.__reduce__()[1]
            size = its_size if size is None else size
        raw = bytes(data)
        if len(raw) != _BYTES:
            raise CudaIpcError(
                "INVALID_HANDLE",
                f"Cannot open memory of a pool: its name has {len(raw)} bytes, wanted {_BYTES}",
            )
        if shape is None:
            if size is None:
                raise ValueError("give the shape, or byte_length")
            shape = int(size) // dtype_of(dtype).itemsize
        layout = _layout(dtype, shape, strides, byte_offset)
        memory = self._imported.open(raw)
        length = memory.length if size is None else int(size)
        if length >= 0:
            _check_inside(layout, length)
        return Array(HandleState("pooled"), memory, layout)


@explains_keywords
def open_pool(handle: Any, *, device: Device | None = None) -> Pool:
    """Opens a memory pool of another process.

    `handle` is its file descriptor, which stays yours, or an `IPCAllocationHandle` of cuda.core.
    `device` is as for `open_handle`. Raises CUDA_ERROR, INVALID_DEVICE, DEVICE_NOT_FOUND.
    """
    fd = int(handle) if hasattr(handle, "__int__") else int(handle.handle)
    from ._cuda_handles import ImportedPool

    return Pool(ImportedPool(_context(device), fd))


def _context(device: Device | None) -> Any:
    ordinal = gpu_ordinal(device)
    from ._cuda import context_at

    return context_at(ordinal)


def _layout(
    dtype: DTypeLike | None,
    shape: int | Sequence[int] | None,
    strides: Sequence[int] | None,
    byte_offset: int,
) -> Layout:
    if dtype is None or shape is None:
        raise TypeError("a handle does not say what lies behind it: give dtype and shape")
    found, lengths = dtype_of(dtype), checked_shape(shape)
    steps = packed_strides(lengths) if strides is None else tuple(int(n) for n in strides)
    if len(steps) != len(lengths):
        raise ValueError(f"{len(steps)} strides for {len(lengths)} dimensions")
    if byte_offset < 0 or byte_offset % found.alignment != 0:
        raise ValueError(f"byte_offset {byte_offset} is not aligned to {found.name}")
    return Layout(found, lengths, steps, byte_offset)


def _check_inside(layout: Layout, byte_length: int) -> None:
    low, high = layout.bounds()
    if low < 0 or high > byte_length:
        raise CudaIpcError(
            "INVALID_DESCRIPTOR",
            f"Cannot open an array in bytes {low} to {high}: the allocation has {byte_length}",
        )
