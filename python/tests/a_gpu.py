"""A GPU, or the libcuda of the tests that is written in C: is there one, and an array on it."""

from __future__ import annotations

import cuda_ipc
from cuda_ipc._layout import packed_layout
from cuda_ipc.arrays import Array, HandleState


def why_not() -> str:
    try:
        from cuda_ipc._cuda import context_at

        context_at(0)
    except cuda_ipc.CudaIpcError as missing:
        return missing.message
    return ""


def a_tensor(memory, dtype, shape, offset=0):
    """Stands in for an array of CuPy or Numba."""
    layout = packed_layout(dtype, shape, offset)
    array = Array(HandleState("x"), memory, layout)

    class Tensor:
        __cuda_array_interface__ = array.__cuda_array_interface__
        kept = memory

    Tensor.dtype = dtype
    return Tensor()
