"""Memory that only its owner keeps alive, under a name: memory of cudaMalloc, by its handle.

A mark travels with it: a memory file whose first word is POISON once the memory is gone. The owner
frees the memory only when nobody else has a lease. A reader gives its lease back only when nothing
here uses the mapping.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from ._fds import is_finalizing
from ._memory import check_file, create_file
from ._protocol import PAGE_BYTES, POISON
from ._words import Words
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._cuda_handles import BorrowedCudaMemory
    from ._leases import HeldLease

#: Memory of this process that has a name, by device and inode of its mark.
_own: weakref.WeakValueDictionary[tuple[int, int], OwnedMemory] = weakref.WeakValueDictionary()
#: Memory of other processes that is open here.
_lent: weakref.WeakSet[LentMemory] = weakref.WeakSet()


def _file_of(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


class OwnedMemory:
    """Keeps a framework's array until `end`. The caller closes `fd`, the mark."""

    def __init__(self, memory: BorrowedCudaMemory, handle: bytes) -> None:
        self.handle = handle
        self.memory: BorrowedCudaMemory | None = memory
        self.fd = create_file(PAGE_BYTES)
        try:
            self._mark = Words(self.fd, PAGE_BYTES, True)
        except BaseException:
            os.close(self.fd)
            raise
        _own[_file_of(self.fd)] = self

    def end(self) -> None:
        """Lets go of the array. Whoever still has the memory open is told by the mark."""
        if self.memory is not None:
            # SYNC: before the framework can use the memory for something else.
            self._mark.store(0, POISON)
            self.memory = None


class SharedMemory:
    """Keeps an array of a framework whose name is gone, until nobody else reads it."""

    def __init__(self, array: object) -> None:
        self._array: object = array

    def end(self) -> None:
        self._array = None


class LentMemory:
    """Memory of another process. Its lease lasts as long as something here refers to it."""

    buffer = None

    def __init__(self, memory: Any, mark: Words, handle: bytes, readonly: bool) -> None:
        self._memory = memory
        self._mark = mark
        self._held: HeldLease | None = None
        self.handle = handle
        self.readonly = readonly
        self.device: tuple[int, int] = memory.device

    def keep(self, held: HeldLease) -> None:
        """Takes the lease over."""
        self._held = held
        held.lasts_with_memory = True

    @property
    def gone(self) -> bool:
        return self._mark.longs[0] == POISON

    def check(self, verb: str) -> None:
        if self.gone:
            raise CudaIpcError(
                "PEER_GONE", f"Cannot {verb} shared memory: its owner is gone, and the memory too"
            )

    @property
    def context(self) -> Any:
        return self._memory.context

    @property
    def address(self) -> int:
        self.check("use")
        return int(self._memory.address)

    def read(self, start: int, length: int) -> bytes:
        self.check("read")
        found = bytes(self._memory.read(start, length))
        # The owner may have gone in the middle, and other memory was read.
        self.check("read")
        return found

    def write(self, start: int, data: memoryview) -> None:
        self.check("write to")
        self._memory.write(start, data)

    def finish(self) -> None:
        self._memory.finish()

    def fds(self) -> list[int]:
        raise NotImplementedError

    def __del__(self) -> None:
        held, self._held = getattr(self, "_held", None), None
        if is_finalizing():
            return
        # First the mapping, then the lease: the owner frees the memory after that.
        self._memory = None
        if held is not None:
            held.release_with_memory()


def open_named(uuid: str, length: int, handle: bytes, fd: int, readonly: bool) -> LentMemory:
    """Opens memory of `length` bytes. The descriptor of the mark stays the caller's."""
    from ._cuda import context_of
    from ._cuda_handles import open_handle

    check_file(fd, PAGE_BYTES, "the mark")
    mark = Words(fd, PAGE_BYTES, False)
    own = _own.get(_file_of(fd))
    if own is not None and own.memory is not None:
        return LentMemory(own.memory, mark, handle, readonly)
    for other in list(_lent):
        if other.handle == handle and other.gone:
            # The driver would give the same mapping again: that of the freed memory.
            raise CudaIpcError(
                "IN_USE",
                "Cannot open shared memory: memory of the same handle, whose owner is gone, is "
                "still open here; close that first",
            )
    opened = open_handle(context_of(uuid), handle)
    memory = LentMemory(opened, mark, handle, readonly)
    # The memory may have been freed meanwhile, and its handle used for other memory.
    memory.check("open")
    if length > opened.length:
        raise CudaIpcError(
            "INVALID_DESCRIPTOR",
            f"Cannot open shared memory: the descriptor claims {length} bytes, the allocation has "
            f"{opened.length}",
        )
    _lent.add(memory)
    return memory
