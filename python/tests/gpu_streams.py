"""Streams for tests: work that waits until the test opens a gate, so it is late for certain."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from cuda_ipc._cuda import context_at
from cuda_ipc._cuda_library import check, declare
from cuda_ipc._cuda_streams import finish_contexts
from cuda_ipc._deadline import Deadline

_u64, _p, _size, _uint = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
NON_BLOCKING, NOT_READY = 1, 600
LIMIT = 60.0


def library() -> ctypes.CDLL:
    return declare(
        {
            "cuStreamCreate": [_p, _uint],
            "cuStreamDestroy_v2": [_p],
            "cuStreamQuery": [_p],
            "cuMemsetD8Async": [_u64, ctypes.c_ubyte, _size, _p],
            "cuMemcpyDtoDAsync_v2": [_u64, _u64, _size, _p],
            "cuMemHostRegister_v2": [_p, _size, _uint],
            "cuMemHostUnregister": [_p],
            "cuMemHostGetDevicePointer_v2": [_p, _p, _uint],
            "cuStreamWaitValue64_v2": [_p, _u64, _u64, _uint],
        }
    )


class Gate:
    """A word that streams wait for. `open` lets them go on.

    The end of `with` opens it, too: a channel that is closed waits for its streams.
    """

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_SHARED)
        self._word = ctypes.c_int64.from_buffer(self._map)
        self._address = ctypes.addressof(self._word)
        pointer = ctypes.c_void_p()
        with context_at(0).current():
            check("register", library().cuMemHostRegister_v2(self._address, mmap.PAGESIZE, 3))
            found = library().cuMemHostGetDevicePointer_v2(ctypes.byref(pointer), self._address, 0)
            check("pointer", found)
        self.pointer = pointer.value

    def open(self) -> None:
        self._word.value = 1

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()

    def close(self) -> None:
        self.open()
        finish_contexts({context_at(0).handle}, Deadline("close a gate", LIMIT))
        with context_at(0).current():
            check("unregister", library().cuMemHostUnregister(self._address))
        del self._word
        self._map.close()


class GpuStream:
    """A stream of the driver. The libcuda in C does its work when somebody asks for it."""

    def __init__(self) -> None:
        found = ctypes.c_void_p()
        with context_at(0).current():
            check("create", library().cuStreamCreate(ctypes.byref(found), NON_BLOCKING))
        self.handle = found.value or 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def wait(self, gate: Gate) -> None:
        self._do("cuStreamWaitValue64_v2", self.handle, gate.pointer, 1, 0)

    def fill(self, address: int, value: int, length: int) -> None:
        self._do("cuMemsetD8Async", address, value, length, self.handle)

    def copy(self, to: int, source: int, length: int) -> None:
        self._do("cuMemcpyDtoDAsync_v2", to, source, length, self.handle)

    def is_idle(self) -> bool:
        with context_at(0).current():
            status = library().cuStreamQuery(self.handle)
            if status != NOT_READY:
                check("query", status)
        return status == 0

    def close(self) -> None:
        with context_at(0).current():
            check("destroy", library().cuStreamDestroy_v2(self.handle))

    def _do(self, name: str, *arguments: Any) -> None:
        with context_at(0).current():
            check(name, getattr(library(), name)(*arguments))


def address_of(array: Any) -> int:
    """Of an array of this package in GPU memory."""
    return array.__cuda_array_interface__["data"][0]
