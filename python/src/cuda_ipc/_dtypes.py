"""The element types, and what Python's frameworks call them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ._choices import DTypeName
from ._protocol import DTYPE_SIZES
from .errors import CudaIpcError


class DType(NamedTuple):
    """One element type. All are little-endian."""

    name: DTypeName
    itemsize: int
    alignment: int
    #: Codes of the struct module for one element; None if Python has no such number.
    struct: str | None
    #: As in `__array_interface__`; None if NumPy itself has no such type.
    typestr: str | None
    #: Type code and bits of DLPack.
    dlpack: tuple[int, int]


_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL, _E4M3FN, _E5M2 = 0, 1, 2, 4, 5, 6, 10, 12

# dtype: (struct codes, kind and size in NumPy, type code of DLPack)
_NAMES: Final[dict[DTypeName, tuple[str | None, str | None, int]]] = {
    "bool": ("?", "|b1", _BOOL),
    "uint8": ("B", "|u1", _UINT),
    "uint16": ("H", "<u2", _UINT),
    "uint32": ("I", "<u4", _UINT),
    "uint64": ("Q", "<u8", _UINT),
    "int8": ("b", "|i1", _INT),
    "int16": ("h", "<i2", _INT),
    "int32": ("i", "<i4", _INT),
    "int64": ("q", "<i8", _INT),
    "float8_e4m3fn": (None, None, _E4M3FN),
    "float8_e5m2": (None, None, _E5M2),
    "float16": ("e", "<f2", _FLOAT),
    "bfloat16": (None, None, _BFLOAT),
    "float32": ("f", "<f4", _FLOAT),
    "float64": ("d", "<f8", _FLOAT),
    "complex64": ("ff", "<c8", _COMPLEX),
    "complex128": ("dd", "<c16", _COMPLEX),
}

DTYPES: Final[dict[str, DType]] = {
    name: DType(name, *DTYPE_SIZES[name], struct, typestr, (code, 8 * DTYPE_SIZES[name][0]))
    for name, (struct, typestr, code) in _NAMES.items()
}


#: Kinds of NumPy's dtypes: objects, bytes, strings, structures and times.
_NO_NUMBERS = ("O", "S", "U", "V", "M", "m")
#: As in TypeScript.
_OTHER_NAMES: Final[dict[str, DTypeName]] = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
}


def dtype_of(value: object) -> DType:
    """The dtype of this name, or of what NumPy, ml_dtypes or PyTorch call it."""
    if isinstance(value, DType):
        return value
    if not isinstance(value, str):
        if getattr(value, "byteorder", "=") == ">":
            raise CudaIpcError(
                "UNSUPPORTED_DTYPE", f"Cannot use {value}: it is big-endian; convert it first"
            )
        # Other packages make dtypes of kind V, such as bfloat16. NumPy knows them as 2.
        if getattr(value, "kind", "") in _NO_NUMBERS and getattr(value, "isbuiltin", 0) != 2:
            raise CudaIpcError(
                "UNSUPPORTED_DTYPE", f"Cannot use {value!r}: its elements are no plain numbers"
            )
        # numpy.dtype("float32"), numpy.float32, torch.float32
        value = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    found = DTYPES.get(value.removeprefix("torch."))
    if found is None:
        from ._keywords import did_you_mean

        other = _OTHER_NAMES.get(value.lower())
        meant = f' Did you mean "{other}"?' if other else did_you_mean(value, DTYPES)
        raise CudaIpcError(
            "UNSUPPORTED_DTYPE",
            f"Cannot use the dtype {value!r}: wanted one of {', '.join(DTYPES)}"
            f"{'.' if meant else ''}{meant}",
        )
    return found


def numpy_dtype(dtype: DType) -> Any:
    """The dtype of NumPy, or of ml_dtypes for bfloat16 and float8."""
    try:
        import numpy
    except ImportError as missing:
        raise CudaIpcError(
            "UNSUPPORTED", "Cannot make a NumPy array: NumPy is not installed (pip install numpy)"
        ) from missing
    if dtype.typestr is not None:
        return numpy.dtype(dtype.typestr)
    try:
        import ml_dtypes
    except ImportError as missing:
        raise CudaIpcError(
            "UNSUPPORTED_DTYPE",
            f"Cannot make a NumPy array of {dtype.name}: NumPy has no such dtype, and ml_dtypes "
            "is not installed (pip install ml_dtypes)",
        ) from missing
    return numpy.dtype(getattr(ml_dtypes, dtype.name))


#: The names of all element types.
dtypes: tuple[DTypeName, ...] = tuple(_NAMES)
