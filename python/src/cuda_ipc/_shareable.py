"""Memory that is allocated so that it can be shared later: on the host, and on a GPU.

The callbacks have the form of PyTorch's pluggable allocators. PyTorch is not needed to call them.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ._memory import HostMemory, create_file, round_up
from ._protocol import PAGE_BYTES
from .errors import coded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._cuda import CudaAllocation

#: PyTorch's object for the callbacks, once there is one.
pytorch: Any = None


class OwnHostMemory(HostMemory):
    """A memory file of this process, which keeps its descriptor to share it later."""

    def __init__(self, byte_length: int) -> None:
        self.length = max(PAGE_BYTES, round_up(byte_length, PAGE_BYTES))
        self._fd = create_file(self.length)
        try:
            super().__init__(self._fd, self.length, readonly=False)
            self._address = super().address
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def address(self) -> int:
        return self._address

    def fds(self) -> list[int]:
        with coded("share memory"):
            return [os.dup(self._fd)]

    def __del__(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


# WHY an RLock: a collection of garbage inside of it may end another memory.
_lock = threading.RLock()
# A child of fork would wait forever for a thread that only its parent has.
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
_starts: list[int] = []
_own: dict[int, weakref.ref[OwnHostMemory]] = {}


def new_memory(byte_length: int, ordinal: int | None) -> OwnHostMemory | CudaAllocation:
    """Memory on the host, or on the GPU of this ordinal."""
    if ordinal is not None:
        return _on_gpu(byte_length, ordinal)
    memory = OwnHostMemory(byte_length)
    start = memory.address

    def forget(_: object) -> None:
        with _lock:
            if _own.pop(start, None) is not None:
                _starts.remove(start)

    with _lock:
        # The mapping at this address before has ended, and its `forget` may still be due.
        if start not in _own:
            bisect.insort(_starts, start)
        _own[start] = weakref.ref(memory, forget)
    return memory


def own_host_memory(address: int, byte_length: int) -> OwnHostMemory | None:
    """The memory made here in which these bytes lie."""
    with _lock:
        at = bisect.bisect_right(_starts, address) - 1
        memory = _own[_starts[at]]() if at >= 0 else None
    if memory is None or address + byte_length > memory.address + memory.length:
        return None
    return memory


def _on_gpu(byte_length: int, ordinal: int) -> CudaAllocation:
    from ._cuda import CudaAllocation, context_at

    memory = CudaAllocation(context_at(ordinal), byte_length)
    # The driver gives another descriptor when the memory is shared.
    for fd in memory.fds():
        os.close(fd)
    return memory


# ---------------------------------------------------------------- PyTorch's pools


class Pools:
    """Pools of PyTorch, each in use by one thread.

    PyTorch ends the process if a pool goes while any thread allocates to one. So a pool that is no
    longer used waits here until no thread allocates.
    """

    def __init__(self) -> None:
        # WHY an RLock: a collection of garbage inside of it may end a generator that leaves.
        self._lock = threading.RLock()
        self._allocating = 0
        self._unused: list[Any] = []

    @contextlib.contextmanager
    def allocating(self, torch: Any, device: Any) -> Iterator[None]:
        """Within it, this thread allocates to a new pool. Afterwards the pool's tensors stay."""
        pool = torch.cuda.MemPool(pytorch)
        scope = torch.cuda.use_mem_pool(pool, device)
        with self._lock:
            scope.__enter__()
            self._allocating += 1
        try:
            yield
        finally:
            with self._lock:
                self._unused.append(pool)
                del pool
                try:
                    scope.__exit__(None, None, None)
                finally:
                    self._allocating -= 1
                    if self._allocating == 0:
                        self._unused.clear()


pools = Pools()

# ---------------------------------------------------------------- the callbacks

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)

#: The blocks that PyTorch has, by their address.
blocks: dict[int, CudaAllocation] = {}


def _allocate(size: int, ordinal: int, _stream: int | None) -> int | None:
    # PyTorch frees what it has cached and tries again, or raises its own error, if it gets None.
    try:
        memory = _on_gpu(size, ordinal)
    except Exception:
        return None
    blocks[memory.address] = memory
    return memory.address


def _free(
    address: int | None,
    _size: int,
    _ordinal: int,
    _stream: int | None,
    _blocks: dict[int, CudaAllocation] = blocks,
) -> None:
    # It waits for the GPU's work, and unmaps. Who shares it keeps the memory itself.
    _blocks.pop(address or 0, None)


# Module globals end late, but PyTorch calls these later still.
_allocate_callback = _Allocate(_allocate)
_free_callback = _Free(_free)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_allocate_callback))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_free_callback))


def callback_addresses() -> tuple[int, int]:
    """Of `void *allocate(ssize_t, int, cudaStream_t)`, and of the function that frees."""
    found = [
        ctypes.cast(one, ctypes.c_void_p).value for one in (_allocate_callback, _free_callback)
    ]
    return found[0] or 0, found[1] or 0
