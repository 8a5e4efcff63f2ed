"""The size and the meta of a message, as its header has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._descriptors import ChannelFacts
from ._json import encode_json
from ._layout import checked_shape
from ._protocol import FLAG_JSON, RANK_MAX
from .errors import CudaIpcError


def size_of(
    name: str, facts: ChannelFacts, shape: int | Sequence[int] | None, byte_length: int | None
) -> tuple[tuple[int, ...] | None, int]:
    """The shape that was given, and the bytes. Raises MESSAGE_TOO_LARGE, TypeError, ValueError."""
    if shape is not None:
        if byte_length is not None:
            raise TypeError("a message has either a shape or a byte_length")
        lengths = checked_shape(shape, RANK_MAX)
        size = math.prod(lengths) * facts.dtype.itemsize
    elif byte_length is None:
        return None, facts.slot_bytes
    else:
        lengths, size = None, byte_length
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"byte_length must be an integer, not {size!r}")
        if size < 0 or size % facts.dtype.itemsize != 0:
            raise ValueError(f"byte_length {size} is no whole number of {facts.dtype.name}")
    if size > facts.slot_bytes:
        raise too_large(name, size, facts.slot_bytes, "bytes")
    return lengths, size


def encode_meta(name: str, meta: Any, limit: int) -> tuple[int, bytes]:
    """The flags and the bytes of the meta. Raises MESSAGE_TOO_LARGE, TypeError, ValueError."""
    if meta is None:
        return 0, b""
    if isinstance(meta, (bytes, bytearray, memoryview)):
        flags, raw = 0, bytes(meta)
    else:
        flags, raw = FLAG_JSON, encode_json(meta, what="meta (if not bytes)")
    if len(raw) > limit:
        raise too_large(name, len(raw), limit, "bytes of meta")
    return flags, raw


def too_large(name: str, found: int, limit: int, what: str) -> CudaIpcError:
    return CudaIpcError(
        "MESSAGE_TOO_LARGE",
        f'Cannot write to channel "{name}": the message has {found} {what}, at most '
        f"{limit} are possible",
    )
