"""Aligned words in shared memory, with loads and stores in order.

The protocol asks for loads and stores that are sequentially consistent. Python has none, but:

- An item of `memoryview.cast("q")` is read and written by one `memcpy` of 8 aligned bytes in C.
  Compilers for x86-64 and AArch64 make one instruction of it, so a word is never seen half.
- On x86-64, loads are in order among themselves, and so are stores. Only a load after a store needs
  a barrier between them. Every atomic read-modify-write is one there, and to take and release a
  `threading.Lock` is two of them. That takes 50 ns.
- On AArch64 the barrier is the system call membarrier, before and after each word. It takes about a
  microsecond.
- No word has two writers, so atomic additions are not needed.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Protocol

from ._memory import address_of, map_file
from .errors import CudaIpcError

_MACHINE = os.uname().machine
_IS_STRONG = _MACHINE == "x86_64" and sys.implementation.name == "cpython"
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}.get(_MACHINE)
_GLOBAL_EXPEDITED = 2


class OrderedLoads(Protocol):
    """The words by their index."""

    def __getitem__(self, index: int) -> int: ...


def _barrier() -> None:
    """All loads and stores before this come before all after it."""
    if _MEMBARRIER is None or sys.byteorder != "little":
        raise CudaIpcError("UNSUPPORTED", f"Cannot share words with other processes on {_MACHINE}")
    import ctypes

    if ctypes.CDLL(None, use_errno=True).syscall(_MEMBARRIER, _GLOBAL_EXPEDITED, 0) != 0:
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot share words with other processes: the system refuses membarrier, "
            + os.strerror(ctypes.get_errno()),
        )


class _FencedLoads:
    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def __getitem__(self, index: int) -> int:
        value: int = self._words[index]
        _barrier()
        return value


class Words:
    """A memory file that is mapped. Closing it unmaps it at once."""

    __slots__ = (
        "_fence",
        "_map",
        "_plain_ints",
        "bytes",
        "doubles",
        "ints",
        "longs",
        "plain",
        "writable",
    )

    def __init__(self, fd: int, length: int, writable: bool) -> None:
        if not _IS_STRONG:
            _barrier()
        self.writable = writable
        self._map = map_file(fd, length, writable)
        self.bytes = memoryview(self._map)
        #: Plain words of 8 bytes, signed. They come before the next store.
        self.plain = self.bytes.cast("q")
        self._plain_ints = self.bytes.cast("I")
        self.doubles = self.bytes.cast("d")
        #: Words of 8 and of 4 bytes by index, for loads in order.
        self.longs: OrderedLoads = self.plain if _IS_STRONG else _FencedLoads(self.plain)
        self.ints: OrderedLoads = self._plain_ints if _IS_STRONG else _FencedLoads(self._plain_ints)
        # SYNC: taking it is the barrier after a store.
        self._fence = threading.Lock()

    @property
    def address(self) -> int:
        return address_of(self.bytes)

    def store(self, index: int, value: int) -> None:
        """Stores 8 bytes, in order with all loads and stores."""
        if _IS_STRONG:
            self.plain[index] = value
            with self._fence:
                return
        _barrier()
        self.plain[index] = value
        _barrier()

    def store32(self, index: int, value: int) -> None:
        if _IS_STRONG:
            self._plain_ints[index] = value & 0xFFFFFFFF
            with self._fence:
                return
        _barrier()
        self._plain_ints[index] = value & 0xFFFFFFFF
        _barrier()

    def write32(self, index: int, value: int) -> None:
        """A plain store: it comes before the next `store`."""
        self._plain_ints[index] = value

    def close(self) -> None:
        for view in (self.plain, self._plain_ints, self.doubles, self.bytes):
            view.release()
        self._map.close()
