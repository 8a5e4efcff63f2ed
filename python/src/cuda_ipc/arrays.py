"""Arrays in shared memory. Frameworks view them without a copy."""

from __future__ import annotations

import struct
from typing import Any, Protocol

from ._choices import DTypeName
from ._closing import OfProcess
from ._data import byte_view
from ._dtypes import numpy_dtype
from ._layout import Layout
from ._memory import Memory, is_on_gpu
from ._waiting import SlotCopy, off_the_loop
from .errors import CudaIpcError


class Handle(Protocol):
    """What an array belongs to: it can be used until that is closed."""

    @property
    def name(self) -> str: ...

    @property
    def closed(self) -> bool: ...


class HandleState:
    """The handle of arrays that a lease holds. WHY not the lease: a cycle would outlive its use."""

    __slots__ = ("closed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False


class Array(OfProcess):
    """An array in shared memory.

    `numpy()`, `torch.from_dlpack`, `cupy.from_dlpack` and `jax.dlpack.from_dlpack` give views of
    the very memory. A view keeps the memory mapped, also after this array is closed.
    """

    def __init__(self, handle: Handle, memory: Memory, layout: Layout) -> None:
        self._handle = handle
        self._memory: Memory | None = memory
        self._layout = layout
        # A framework has this object's word that the memory stays.
        self._is_lent = False
        # Views that frameworks have made of the same memory; None if none are kept.
        self._views: dict[str, Any] | None = None

    @property
    def dtype(self) -> DTypeName:
        """The name of the element type, such as "float32"."""
        return self._layout.dtype.name

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._layout.dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        return self._layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps of each dimension, in elements."""
        return self._layout.strides

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._layout.nbytes

    @property
    def readonly(self) -> bool:
        """Whether it was opened for reading alone."""
        return self._mapped("use").readonly

    @property
    def device(self) -> str:
        """`"host"` or `"cuda:N"`."""
        kind, ordinal = self._mapped("use").device
        return "host" if kind == 1 else f"cuda:{ordinal}"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<{type(self).__name__} {self._handle.name!r} {self.dtype}[{shape}]>"

    def tobytes(self) -> bytes:
        """A copy of the elements, last index fastest. On a GPU it waits for the context's work."""
        memory, layout = self._mapped("read"), self._layout
        low, high = layout.bounds()
        block = memory.read(low, high - low)
        if layout.is_packed:
            return block
        size = self.itemsize
        return b"".join(block[at - low : at - low + size] for at in layout.positions())

    async def tobytes_async(self) -> bytes:
        """As `tobytes`, for asyncio. On the host it is the same call."""
        return await off_the_loop(is_on_gpu(self._memory), self.tobytes)

    def write(self, data: Any) -> None:
        """Copies all elements in, last index fastest.

        `data` is bytes, or an array on the host of the same dtype (C-contiguous, such as one of
        NumPy or PyTorch), of exactly `nbytes` bytes. Raises READ_ONLY, CLOSED, UNSUPPORTED,
        TypeError, ValueError.
        """
        memory, layout = self._mapped("write to"), self._layout
        if memory.readonly:
            raise CudaIpcError(
                "READ_ONLY", f"Cannot write to {self._handle.name!r}: it was opened for reading"
            )
        view = byte_view(data, layout.dtype)
        if len(view) != layout.nbytes:
            raise ValueError(f"{len(view)} bytes for an array of {layout.nbytes} bytes")
        if layout.is_packed:
            memory.write(layout.byte_offset, view)
            return
        size = self.itemsize
        for n, at in enumerate(layout.positions()):
            memory.write(at, view[n * size : (n + 1) * size])

    async def write_async(self, data: Any) -> None:
        """As `write`, for asyncio. On the host it is the same call.

        If the task is cancelled, the copy continues on its thread.
        """
        copy = SlotCopy(lambda: self.write(data))
        try:
            await off_the_loop(is_on_gpu(self._memory), copy)
        except BaseException as failure:
            # Of a slot: it is not loaned again before the end of the copy.
            leaves = getattr(self._handle, "_leaves", None)
            if leaves is not None:
                leaves(copy, failure)
            raise

    def tolist(self) -> list[Any]:
        """The elements as one flat list, last index fastest."""
        code = self._layout.dtype.struct
        if code is None:
            raise CudaIpcError(
                "UNSUPPORTED_DTYPE",
                f"Cannot list {self._handle.name!r}: Python has no {self.dtype}; use tobytes()",
            )
        rows = struct.iter_unpack("<" + code, self.tobytes())
        return [complex(*row) if len(row) == 2 else row[0] for row in rows]

    async def tolist_async(self) -> list[Any]:
        """As `tolist`, for asyncio. On the host it is the same call."""
        return await off_the_loop(is_on_gpu(self._memory), self.tolist)

    def numpy(self) -> Any:
        """A NumPy view of host memory. It is read-only if the array was opened for reading.

        Raises UNSUPPORTED on a GPU or without NumPy, UNSUPPORTED_DTYPE for bfloat16 and float8
        without ml_dtypes.
        """
        memory = self._mapped("use")
        if memory.buffer is None:
            raise CudaIpcError(
                "UNSUPPORTED",
                f"Cannot view {self._handle.name!r} with NumPy: it lies on {self.device}. "
                "Copy it with tobytes(), or view it with torch or cupy.",
            )
        dtype = numpy_dtype(self._layout.dtype)
        import numpy

        if self._is_message:
            if self._layout.dtype.typestr is not None and self.size > 0:
                return numpy.asarray(self)  # it keeps this array, and so the message
            self._mapped("view")
        strides = [stride * self.itemsize for stride in self.strides]
        offset = self._layout.byte_offset
        return numpy.ndarray(self.shape, dtype, memory.buffer, offset, strides)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        view = self.numpy()
        if dtype is not None and dtype != view.dtype:
            if copy is False:
                raise ValueError(f"a view of {self.dtype} as {dtype} needs a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    @property
    def __array_interface__(self) -> dict[str, Any]:
        memory, layout = self._mapped("use"), self._layout
        if memory.buffer is None or layout.dtype.typestr is None:
            raise AttributeError("__array_interface__ is for host memory of a dtype that NumPy has")
        found = {
            "version": 3,
            "shape": layout.shape,
            "typestr": layout.dtype.typestr,
            "strides": tuple(stride * self.itemsize for stride in layout.strides),
        }
        if self._is_message and layout.size > 0:
            # The address: so a view keeps this array, and with it the message.
            self._is_lent = True
            return {**found, "data": (memory.address + layout.byte_offset, memory.readonly)}
        # The buffer, and not its address: so a view keeps it mapped.
        return {**found, "data": memory.buffer, "offset": layout.byte_offset}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        memory, layout = self._mapped("view"), self._layout
        if memory.buffer is not None or layout.dtype.typestr is None:
            raise AttributeError(
                "__cuda_array_interface__ is for GPU memory of a dtype that NumPy has"
            )
        self._is_lent = True
        address = memory.address + layout.byte_offset if layout.size > 0 else 0
        return {
            "version": 3,
            "shape": layout.shape,
            "typestr": layout.dtype.typestr,
            "strides": tuple(stride * self.itemsize for stride in layout.strides),
            "data": (address, memory.readonly),
            # Nothing is under way here that a stream would have to wait for.
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._mapped("view").device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        memory = self._mapped("view")
        if dl_device is not None and tuple(dl_device) != memory.device:
            raise BufferError(f"the array lies on {self.device}, and is not copied from there")
        if copy:
            raise BufferError("the array is shared, not copied; copy the view")
        check_stream(stream, memory.device[0])
        # WHY here: to load ctypes takes milliseconds, and many programs need none of it.
        from ._dlpack import capsule_of

        return capsule_of(memory, self._layout, max_version)

    @property
    def _is_message(self) -> bool:
        """Whether it is given back when the program drops it, so that views have to keep it."""
        return hasattr(self._handle, "lend")

    def _mapped(self, verb: str) -> Memory:
        memory, handle = self._memory, self._handle
        if memory is None or handle.closed:
            raise CudaIpcError("CLOSED", f"Cannot {verb} {handle.name!r}: it was closed")
        if verb == "view":
            lend = getattr(handle, "lend", None)
            if lend is not None:
                lend()
        return memory

    def _let_go(self) -> None:
        """The array was closed. Views that exist keep the memory mapped."""
        if not self._is_lent:
            self._memory = None


def check_stream(stream: int | None, device_type: int) -> None:
    """What is shared is complete, so no stream has to wait. Refuses numbers that name no stream."""
    if stream is None:
        return
    if isinstance(stream, bool) or not isinstance(stream, int):
        raise TypeError(f"stream must be an integer or None, not {stream!r}")
    if device_type == 1 and stream != -1:
        raise BufferError("host memory has no streams; stream must be None")
    if device_type == 2 and (stream == 0 or stream < -1):
        raise BufferError(f"stream {stream} names no stream: 1 is the legacy default stream")
