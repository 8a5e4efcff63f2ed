"""The index of a bundle: a sealed memory file that says where each array lies."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ._json import encode_json, parse_json
from ._layout import Layout, Refused, checked_layout, integer, only, require
from ._memory import F_SEAL_WRITE, check_file, create_file
from ._protocol import DESCRIPTOR_VERSION, LIMIT_BUNDLE_ARRAYS, LIMIT_BUNDLE_INDEX_BYTES
from .errors import CudaIpcError


class Index(NamedTuple):
    """The arrays of a bundle by name, and its metadata."""

    layouts: dict[str, Layout]
    metadata: dict[str, str]


def write_index(index: Index) -> tuple[int, int]:
    """A sealed memory file of the index, and its length. The caller closes it."""
    if len(index.layouts) > LIMIT_BUNDLE_ARRAYS:
        raise CudaIpcError(
            "LIMIT_EXCEEDED",
            f"Cannot make a bundle of {len(index.layouts)} arrays: at most {LIMIT_BUNDLE_ARRAYS}",
        )
    arrays = [{"name": name, **layout.spec()} for name, layout in index.layouts.items()]
    document = {"version": DESCRIPTOR_VERSION, "metadata": index.metadata, "arrays": arrays}
    text = encode_json(document)
    if len(text) > LIMIT_BUNDLE_INDEX_BYTES:
        raise CudaIpcError(
            "LIMIT_EXCEEDED",
            f"Cannot make a bundle whose index has {len(text)} bytes: at most "
            f"{LIMIT_BUNDLE_INDEX_BYTES}",
        )
    return create_file(len(text), text, F_SEAL_WRITE), len(text)


_INDEX = frozenset(("version", "metadata", "arrays"))
_ENTRY = frozenset(("name", "dtype", "shape", "strides", "byteOffset"))
_STRING = re.compile(rb'"[^"]*"?')


def _containers(text: bytes) -> int:
    """How many lists and objects JSON has."""
    # First escaped backslashes, because `\\"` ends a string.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, is_inside = 0, False
    # WHY in pieces: `sub` keeps an entry for each of what could be 32 million strings.
    for at in range(0, len(plain), 1 << 16):
        piece = plain[at : at + (1 << 16)]
        bare = _STRING.sub(b"", b'"' + piece if is_inside else piece)
        found += bare.count(b"[") + bare.count(b"{")
        is_inside ^= piece.count(b'"') % 2 == 1
    return found


def read_index(content: Mapping[str, Any], fd: int, byte_length: int) -> Index:
    """The index of a bundle, with each array checked against the memory."""
    length = integer(content.get("indexByteLength"), 2, "indexByteLength", LIMIT_BUNDLE_INDEX_BYTES)
    count = integer(content.get("arrayCount"), 0, "arrayCount", LIMIT_BUNDLE_ARRAYS)
    check_file(fd, length, "the index", exact=True)
    import fcntl

    from ._memory import F_GET_SEALS

    # Without the seal its writer could change a layout after the check.
    sealed = fcntl.fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE
    require(sealed, "the index is not sealed against writing")
    text = os.pread(fd, length, 0)
    # The index, its metadata and its list; for each array an object, its shape and its strides.
    # WHY before it is parsed: `[],[],[]` takes memory many times its own size.
    found, most = _containers(text), 3 + 3 * count
    require(found <= most, f"the index has {found} lists and objects, {count} arrays need {most}")
    try:
        document = parse_json(text, whole=True)
    except ValueError as wrong:
        raise Refused(f"the index is not JSON: {wrong}") from wrong
    only(document, _INDEX, "the index")
    integer(document.get("version"), DESCRIPTOR_VERSION, "its version", DESCRIPTOR_VERSION)
    arrays, metadata = document.get("arrays"), document.get("metadata")
    require(isinstance(arrays, list), "the index has no list of arrays")
    require(len(arrays) == count, f"the index has {len(arrays)} arrays, {count} were claimed")
    is_text = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    require(is_text, "the metadata are not texts by name")
    layouts: dict[str, Layout] = {}
    for spec in arrays:
        only(spec, _ENTRY, "an array")
        name = spec.get("name")
        require(isinstance(name, str), f"an array has the name {name!r}")
        require(name not in layouts, f"two arrays have the name {name!r}")
        layouts[str(name)] = checked_layout(spec, byte_length)
    return Index(layouts, metadata)
