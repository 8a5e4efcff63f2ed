"""DLPack capsules, made by ctypes: other frameworks see the very memory."""

from __future__ import annotations

import atexit
import ctypes
import struct
from array import array
from typing import Any

from ._layout import Layout
from ._memory import Memory

_READ_ONLY = 1

# WHY packed by hand: a model has thousands of tensors, and ctypes takes several times as long for
# each. These are structures of dlpack.h, which have no padding.
#
#   DLTensor                   bytes
#     data                      8
#     device: type, id          4, 4
#     ndim                      4
#     dtype: code, bits, lanes  1, 1, 2
#     shape, strides            8, 8
#     byte_offset               8
_TENSOR = "QiiiBBHQQQ"
_TENSOR_BYTES = struct.calcsize("=" + _TENSOR)
# DLManagedTensor: the tensor, a context, a deleter. It cannot say that memory is for reading alone.
_MANAGED = struct.Struct("=" + _TENSOR + "QQ")
_MANAGED_DELETER_AT = _TENSOR_BYTES + 8
# DLManagedTensorVersioned, of DLPack 1.0: major, minor, a context, a deleter, flags, the tensor.
_VERSIONED = struct.Struct("=IIQQQ" + _TENSOR)
_VERSIONED_DELETER_AT = 16
_POINTER = struct.Struct("=Q")

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_OLD, _NEW = b"dltensor", b"dltensor_versioned"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# WHY void pointers: the destructor gets a capsule whose count is 0 already.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

# What frameworks still use, by the address of its structure: the structure, where in it the deleter
# is, and the memory.
_Alive = dict[int, tuple["array[int]", int, Memory]]
_alive: _Alive = {}


def _delete(address: int, _alive: _Alive = _alive) -> None:
    _alive.pop(address, None)


def _drop_capsule(capsule: int) -> None:
    # A framework that takes the tensor renames the capsule, and calls the deleter itself.
    for name in (_OLD, _NEW):
        if _is_valid(capsule, name):
            _alive.pop(_pointer_of(capsule, name), None)


_deleter = _Deleter(_delete)
_deleter_address = ctypes.cast(_deleter, ctypes.c_void_p).value or 0
_capsule_deleter = _Deleter(_drop_capsule)
_destructor = ctypes.cast(_capsule_deleter, ctypes.c_void_p)


@atexit.register
def _forget() -> None:
    # Frameworks may drop tensors after the interpreter has ended. Nothing may call Python then,
    # and the memory has to stay.
    for kept in _alive.values():
        block, deleter_at, _ = kept
        _POINTER.pack_into(block, deleter_at, 0)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def capsule_of(memory: Memory, layout: Layout, max_version: tuple[int, int] | None) -> Any:
    """A capsule that keeps the memory mapped until the framework has dropped its view."""
    versioned = max_version is not None and max_version[0] >= 1
    if memory.readonly and not versioned:
        raise BufferError(
            "Cannot share memory that was opened for reading with a framework that asks for a "
            "DLPack before 1.0, because that cannot say so. Open it with access='read-write', or "
            "copy it."
        )
    rank = len(layout.shape)
    head = _VERSIONED if versioned else _MANAGED
    # WHY an array: it says its address, which stays as long as its length.
    block = array("b", bytes(head.size + 16 * rank))
    address = block.buffer_info()[0]
    shape_at = address + head.size
    tensor = (
        memory.address + layout.byte_offset if layout.size > 0 else 0,
        *memory.device,
        rank,
        *layout.dtype.dlpack,
        1,
        shape_at,
        shape_at + 8 * rank,
        0,
    )
    if versioned:
        flags = _READ_ONLY if memory.readonly else 0
        head.pack_into(block, 0, 1, 0, 0, _deleter_address, flags, *tensor)
    else:
        head.pack_into(block, 0, *tensor, 0, _deleter_address)
    struct.pack_into(f"={2 * rank}q", block, head.size, *layout.shape, *layout.strides)
    deleter_at = _VERSIONED_DELETER_AT if versioned else _MANAGED_DELETER_AT
    _alive[address] = (block, deleter_at, memory)
    return _new_capsule(address, _NEW if versioned else _OLD, _destructor)


class VersionAsked:
    """Learns for which version of DLPack a framework asks."""

    version: tuple[int, int] | None = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: Any) -> Any:
        self.version = max_version
        raise BufferError("nothing is shared")
