"""Where the elements of an array lie in its memory, and the checks of that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from ._dtypes import DTYPES, DType, dtype_of
from ._protocol import LIMIT_DIMENSIONS
from .errors import CudaIpcError

INTEGER_MAX = 2**53 - 1


class Refused(Exception):
    """What another process sent contradicts itself. The caller makes INVALID_DESCRIPTOR of it."""


def require(condition: object, found: str) -> None:
    if not condition:
        raise Refused(found)


def only(found: object, names: frozenset[str], what: str) -> None:
    """An unknown field may say that the memory is to be used in another way."""
    if not isinstance(found, Mapping) or not found.keys() <= names:
        raise Refused(f"{what} is {found!r}")


def integer(value: object, low: int, what: str, high: int = INTEGER_MAX) -> int:
    # WHY not `require`: a bundle has tens of thousands of integers, and to format texts takes long.
    if type(value) is not int or not low <= value <= high:
        raise Refused(f"{what} is {value!r}")
    return value


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array whose last index runs fastest."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return tuple(strides)


def checked_shape(
    shape: int | Sequence[int], dimensions: int = LIMIT_DIMENSIONS
) -> tuple[int, ...]:
    """A shape that the caller of this package gave. Raises TypeError or ValueError."""
    try:
        lengths = tuple(shape)  # type: ignore[arg-type]
    except TypeError:  # one number, perhaps of NumPy
        lengths = (shape,)  # type: ignore[assignment]
    for length in lengths:
        if isinstance(length, bool) or not hasattr(length, "__index__"):
            raise TypeError(f"shape must be integers, not {shape!r}")
    found = tuple(length.__index__() for length in lengths)
    if len(found) > dimensions:
        raise ValueError(f"shape has {len(found)} dimensions, at most {dimensions} are possible")
    if any(length < 0 for length in found):
        raise ValueError(f"shape must be integers from 0 up, not {found!r}")
    if math.prod(found) > INTEGER_MAX // 16:
        raise ValueError(f"shape {found!r} has {math.prod(found)} elements, more than are possible")
    return found


class Layout(NamedTuple):
    """An array in its memory. `strides` are in elements and may be 0 or negative."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_offset: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_packed(self) -> bool:
        axes = zip(self.shape, self.strides, packed_strides(self.shape), strict=True)
        return self.size == 0 or all(n == 1 or stride == packed for n, stride, packed in axes)

    def bounds(self) -> tuple[int, int]:
        """The first byte of the elements, and the one behind the last."""
        if self.size == 0:
            return self.byte_offset, self.byte_offset
        low, high = 0, 1
        for length, stride in zip(self.shape, self.strides, strict=True):
            step = (length - 1) * stride
            if step < 0:
                low += step
            else:
                high += step
        size = self.dtype.itemsize
        return self.byte_offset + low * size, self.byte_offset + high * size

    def positions(self) -> Iterator[int]:
        """The byte at which each element starts, last index fastest."""
        size = self.dtype.itemsize
        for index in product(*map(range, self.shape)):
            steps = sum(i * stride for i, stride in zip(index, self.strides, strict=True))
            yield self.byte_offset + size * steps

    def spec(self) -> dict[str, Any]:
        """As it travels in a descriptor."""
        return {
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "byteOffset": self.byte_offset,
        }


def packed_layout(dtype: object, shape: int | Sequence[int], byte_offset: int = 0) -> Layout:
    lengths = checked_shape(shape)
    return Layout(dtype_of(dtype), lengths, packed_strides(lengths), byte_offset)


def known_dtype(value: object) -> DType:
    """The dtype that another process named."""
    if not isinstance(value, str):
        raise Refused(f"a dtype is {value!r}")
    found = DTYPES.get(value)
    if found is None:
        raise CudaIpcError("UNSUPPORTED_DTYPE", f"Cannot use the dtype {value!r}: it is unknown")
    return found


def checked_layout(spec: object, byte_length: int) -> Layout:
    """A layout that another process sent, inside `byte_length` bytes of memory."""
    if not isinstance(spec, Mapping):
        raise Refused(f"an array is {spec!r}")
    dtype = known_dtype(spec.get("dtype"))
    shape, strides = spec.get("shape"), spec.get("strides")
    if not isinstance(shape, list) or len(shape) > LIMIT_DIMENSIONS:
        raise Refused(f"shape is {shape!r}")
    if not isinstance(strides, list) or len(strides) != len(shape):
        raise Refused(f"strides are {strides!r} for shape {shape!r}")
    lengths = tuple([integer(length, 0, "a length") for length in shape])
    steps = tuple([integer(stride, -INTEGER_MAX, "a stride") for stride in strides])
    offset = integer(spec.get("byteOffset"), 0, "byteOffset")
    layout = Layout(dtype, lengths, steps, offset)
    if math.prod([length or 1 for length in lengths]) > INTEGER_MAX:
        raise Refused(f"shape is {shape!r}")
    if offset % dtype.alignment != 0:
        raise Refused(f"byteOffset {offset} is not aligned to {dtype.name}")
    low, high = layout.bounds()
    if low < 0 or high > byte_length or layout.nbytes > byte_length:
        raise Refused(f"an array lies in bytes {low} to {high} of {byte_length}")
    return layout
