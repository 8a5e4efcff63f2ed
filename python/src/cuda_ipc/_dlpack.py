"""DLPack capsules, made by ctypes: other frameworks see the very memory."""

from __future__ import annotations

import atexit
import ctypes
from typing import Any

from ._layout import Layout
from ._memory import Memory

_READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor: it cannot say that the memory is for reading alone."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned, of DLPack 1.0."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


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

# What frameworks still use, by the address of its structure.
_alive: dict[int, tuple[Any, ...]] = {}


def _delete(address: int, _alive: dict[int, tuple[Any, ...]] = _alive) -> None:
    _alive.pop(address, None)


def _drop_capsule(capsule: int) -> None:
    # A framework that takes the tensor renames the capsule, and calls the deleter itself.
    for name in (_OLD, _NEW):
        if _is_valid(capsule, name):
            _alive.pop(_pointer_of(capsule, name), None)


_deleter = _Deleter(_delete)
_capsule_deleter = _Deleter(_drop_capsule)
_destructor = ctypes.cast(_capsule_deleter, ctypes.c_void_p)


@atexit.register
def _forget() -> None:
    # Frameworks may drop tensors after the interpreter has ended. Nothing may call Python then,
    # and the memory has to stay.
    for kept in _alive.values():
        kept[0].deleter = _Deleter(0)
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
    shape = (ctypes.c_int64 * max(rank, 1))(*layout.shape)
    strides = (ctypes.c_int64 * max(rank, 1))(*layout.strides)
    managed: Any = _ManagedVersioned() if versioned else _Managed()
    tensor = managed.tensor
    tensor.data = memory.address + layout.byte_offset if layout.size > 0 else None
    tensor.device = _Device(*memory.device)
    tensor.ndim = rank
    tensor.dtype = _DataType(*layout.dtype.dlpack, 1)
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _deleter
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = _READ_ONLY if memory.readonly else 0
    address = ctypes.addressof(managed)
    _alive[address] = (managed, shape, strides, memory)
    return _new_capsule(address, _NEW if versioned else _OLD, _destructor)
