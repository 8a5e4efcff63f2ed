"""Copies of memory on a GPU, which only this process has."""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from ._cuda import CudaMemory, context_at
from ._cuda_library import call, declare
from ._fds import is_finalizing
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._memory import Memory

_u64, _size, _p = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


class CudaCopy(CudaMemory):
    """Raises OUT_OF_MEMORY."""

    def __init__(self, memory: Memory, start: int, length: int) -> None:
        self.context = context_at(memory.device[1])
        self.readonly = False
        self.device = memory.device
        self.address = 0
        declare(
            {
                "cuMemAlloc_v2": [_p, _size],
                "cuMemcpyDtoD_v2": [_u64, _u64, _size],
                "cuMemFree_v2": [_u64],
            }
        )
        with self.context.current():
            address = _u64()
            call("cuMemAlloc_v2", ctypes.byref(address), max(1, length))
            self.address = address.value
            if length > 0:
                call("cuMemcpyDtoD_v2", self.address, memory.address + start, length)
                # WHY: such a copy does not wait. The caller's streams know nothing of it.
                call("cuStreamSynchronize", None)

    def __del__(self) -> None:
        address, self.address = getattr(self, "address", 0), 0
        if address == 0 or is_finalizing():
            return
        with contextlib.suppress(CudaIpcError), self.context.current():
            # It waits for work that uses the memory.
            call("cuMemFree_v2", address)
