"""The values that `put` copies: what they are, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._dtypes import DTYPES, DType, dtype_of
from ._layout import checked_shape
from .errors import CudaIpcError

#: Values that Python has no own type for may come as those that have the same bytes.
_SAME_BYTES = {
    ("uint16", "float16"),
    ("uint16", "bfloat16"),
    ("float32", "complex64"),
    ("float64", "complex128"),
}


def data_of(
    data: Any, dtype: object, shape: int | Sequence[int] | None
) -> tuple[DType, tuple[int, ...], memoryview]:
    """Element type, shape, and the bytes in C order.

    Raises TypeError, ValueError, UNSUPPORTED, UNSUPPORTED_DTYPE.
    """
    found, own_shape, view = _typed(data)
    if dtype is not None:
        wanted = dtype_of(dtype)
        _check_type(found, wanted)
        if wanted != found:
            if len(view) % wanted.itemsize != 0:
                raise ValueError(f"{len(view)} bytes are no whole number of {wanted.name}")
            found, own_shape = wanted, (len(view) // wanted.itemsize,)
    if shape is None:
        return found, own_shape, view
    lengths = checked_shape(shape)
    size = found.itemsize
    for length in lengths:
        size *= length
    if size != len(view):
        raise ValueError(f"{len(view)} bytes for {found.name}{list(lengths)} of {size} bytes")
    return found, lengths, view


def byte_view(data: Any, dtype: DType | None = None) -> memoryview:
    """The bytes of a C-contiguous array, which become elements of `dtype`.

    Raises TypeError also for elements of another type; ValueError, UNSUPPORTED, UNSUPPORTED_DTYPE.
    """
    _refuse_mask(data)
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):
        # NumPy's bfloat16 and PyTorch's tensors.
        found, _, view = _typed(data)
    else:
        if not view.c_contiguous:
            raise ValueError("data must be C-contiguous; copy it first")
        if view.itemsize == 1:
            return _packed(view)
        if dtype is None:
            if "O" in view.format:
                raise TypeError("data are objects of Python, which only this process can use")
            return _packed(view)
        found, view = _of_format(view), _packed(view)
    if dtype is not None:
        _check_type(found, dtype)
    return view


def _check_type(found: DType, wanted: DType) -> None:
    """Data of single bytes may become anything. Others would be taken for what they are not."""
    if found != wanted and found.itemsize > 1 and (found.name, wanted.name) not in _SAME_BYTES:
        raise TypeError(
            f"data are {found.name}, wanted {wanted.name}; convert them, or pass their bytes"
        )


def _typed(data: Any) -> tuple[DType, tuple[int, ...], memoryview]:
    """By what the data say of themselves. Bytes are uint8."""
    if hasattr(data, "data_ptr") and hasattr(data, "layout"):
        return _of_torch(data)
    named = getattr(data, "dtype", None)
    sizes = getattr(data, "shape", None)
    if named is None or sizes is None:
        view = buffer_of(data)
        return _of_format(view), tuple(view.shape or ()), _packed(view)
    _refuse_mask(data)
    return dtype_of(named), tuple(int(n) for n in sizes), _bytes_of_array(data)


def _refuse_mask(data: Any) -> None:
    """A masked array of NumPy would lose its mask."""
    if hasattr(data, "mask"):
        raise CudaIpcError(
            "UNSUPPORTED", "Cannot copy an array: it has a mask. Copy its data, or array.filled()"
        )


def _of_torch(tensor: Any) -> tuple[DType, tuple[int, ...], memoryview]:
    from ._foreign import foreign

    # What is copied needs no lazy bits. On other layouts these raise errors of their own.
    if str(tensor.layout) == "torch.strided":
        tensor = tensor.resolve_conj().resolve_neg()
    source = foreign(tensor)
    if source.device[0] != 1:
        raise CudaIpcError(
            "UNSUPPORTED",
            f"Cannot copy a tensor: it lies on {tensor.device}. Pass tensor.cpu(), or use "
            "hub.share()",
        )
    import torch

    # NumPy has no bfloat16 and no float8, so it gets the bytes.
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return source.layout.dtype, source.layout.shape, _bytes_of_array(flat)


def _bytes_of_array(data: Any) -> memoryview:
    try:
        return _packed(memoryview(data))
    except (TypeError, ValueError, BufferError):
        pass
    # bfloat16 and float8 have no format code, and PyTorch's tensors have no buffer.
    try:
        import numpy
    except ImportError as missing:
        raise CudaIpcError(
            "UNSUPPORTED", f"Cannot copy a {type(data).__name__}: NumPy is not installed"
        ) from missing
    flat = numpy.ascontiguousarray(numpy.asarray(data))
    return memoryview(flat.reshape(-1).view(numpy.uint8))


def buffer_of(data: Any) -> memoryview:
    """Raises TypeError."""
    if isinstance(data, Mapping):
        raise TypeError(
            f"data must be one array, not {type(data).__name__} of them; use create_bundle(), or "
            "`cuda-ipc put` for a file of weights"
        )
    try:
        return memoryview(data)
    except TypeError:
        kind = type(data).__name__
        raise TypeError(
            "data must be bytes, an array on the host or another object with a buffer, not "
            f"{kind}{_remedy(data)}"
        ) from None


def _remedy(data: Any) -> str:
    if isinstance(data, str):
        return "; encode() makes bytes of it"
    if hasattr(data, "__fspath__") or hasattr(data, "read"):
        return "; read its bytes, or use `cuda-ipc put` for a file of an array or of weights"
    if isinstance(data, (int, float, complex, list, tuple)):
        return "; numpy.asarray() makes an array of numbers"
    return ""


def let_go(view: memoryview) -> None:
    """Releases it. What was made of it and is left sees later data from here on."""
    # WHY not contextlib.suppress: it takes longer than all else here, for each message.
    try:  # noqa: SIM105
        view.release()
    except BufferError:
        pass


def _packed(view: memoryview) -> memoryview:
    if view.nbytes == 0:
        return memoryview(b"")
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes("C"))


_SIGNED = {size: DTYPES[f"int{8 * size}"] for size in (1, 2, 4, 8)}
_UNSIGNED = {size: DTYPES[f"uint{8 * size}"] for size in (1, 2, 4, 8)}
_OTHERS = {
    "?": "bool",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
    "c": "uint8",
}


def _of_format(view: memoryview) -> DType:
    code = view.format
    if code[:1] in "@=<":
        code = code[1:]
    if code in ("b", "h", "i", "l", "q", "n"):
        return _SIGNED[view.itemsize]
    if code in ("B", "H", "I", "L", "Q", "N"):
        return _UNSIGNED[view.itemsize]
    name = _OTHERS.get(code)
    if name is None:
        raise CudaIpcError(
            "UNSUPPORTED_DTYPE", f"Cannot share values of the format {view.format!r}"
        )
    return DTYPES[name]
