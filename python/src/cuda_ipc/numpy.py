"""A model's weights as NumPy arrays, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._choices import Access
from ._dtypes import DTYPES, numpy_dtype
from ._keywords import explains_keywords
from ._waiting import async_form
from ._weights import REQUEST_S, Weights, load_views
from .arrays import Array

if TYPE_CHECKING:
    from .hub import Hub

__all__ = ["Weights", "load_file", "load_file_async"]


@explains_keywords
def load_file(
    name: str,
    *,
    hub: Hub | None = None,
    access: Access = "read",
    wait: bool = False,
    timeout: float | None = REQUEST_S,
) -> Weights:
    """The arrays of a bundle on the host, by name, as `safetensors.numpy.load_file` returns them.

    Nothing is copied: each array is a view, and read-only if `access` is "read". With "copy" what
    you write stays in this process. Without `hub` it connects for itself. With `wait` it waits
    until the bundle is published. Raises NOT_FOUND, which says who has created the name;
    UNSUPPORTED for memory of a GPU; UNSUPPORTED_DTYPE for bfloat16 and float8 without ml_dtypes;
    and as `Hub.open_bundle`.
    """
    return load_views(
        name, _view, hub=hub, access=access, wait=wait, timeout=timeout, retyped=retyped
    )


load_file_async = async_form(load_file)


def retyped(array: Any, name: str) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return array
    dtype = getattr(ml_dtypes, name, None)
    return array if dtype is None else array.view(dtype)


class _Bytes:
    """All bytes of a memory. An array of NumPy that is made of it keeps the memory itself."""

    def __init__(self, memory: Any) -> None:
        length = len(memory.buffer)
        self.memory = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": (length,),
            "typestr": "|u1",
            "data": (memory.address, memory.readonly),
        }


def _view(array: Array) -> Any:
    memory = array._mapped("view")
    if memory.buffer is None:
        return array.numpy()  # it raises
    dtype = numpy_dtype(DTYPES[array.dtype])
    import numpy

    strides = [stride * array.itemsize for stride in array.strides]
    whole = numpy.asarray(_Bytes(memory))
    return numpy.ndarray(array.shape, dtype, whole, array._layout.byte_offset, strides)
