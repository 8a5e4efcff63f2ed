"""Words that calls choose from. Type checkers refuse any other."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypedDict

#: How memory is opened. With "copy", what is written stays in this process.
Access = Literal["read", "read-write", "copy"]
#: With "any", the older object may be of another kind.
Replace = bool | Literal["any"]
Start = Literal["next", "latest", "oldest"]
WhenFull = Literal["wait", "drop-oldest", "drop-newest", "error"]
#: Also of a timeline's owner.
WhenWriterGone = Literal["end", "wait"]
Policy = Literal["retry", "fail"]
Machine = Literal["here", "any"]
Kind = Literal["array", "bundle", "timeline", "channel"]
#: Who may open an object beside the user of its creator: with which access, and from where.
Sharing = TypedDict(
    "Sharing",
    {
        "with": Literal["private", "group", "all"],
        "access": Literal["read", "read-write"],
        "machines": bool,
    },
    total=False,
)
TimelineSharing = TypedDict(
    "TimelineSharing",
    {"with": Literal["private", "group", "all"], "access": Literal["read"]},
    total=False,
)

DTypeName = Literal[
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


class HasItemSize(Protocol):
    """A dtype of NumPy or PyTorch."""

    @property
    def itemsize(self) -> int: ...


#: A name, or what NumPy, ml_dtypes and PyTorch call it, such as `numpy.float32`.
DTypeLike = DTypeName | HasItemSize | type[Any]
