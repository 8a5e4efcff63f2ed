"""Descriptors: what the memory of an object is. All that the hub sends is checked here."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ._choices import WhenFull, WhenWriterGone
from ._dtypes import DTYPES, DType
from ._layout import (
    integer,
    only,
    require,
)
from ._memory import HostMemory, Memory, check_file
from ._protocol import (
    DESCRIPTOR_VERSION,
    HEADER_META,
    HEADERS_AT,
    LIMIT_CHANNEL_CONTROL_BYTES,
    LIMIT_CHANNEL_META_BYTES,
    LIMIT_CHANNEL_READERS,
    LIMIT_CHANNEL_SLOTS,
    LIMIT_NAME_BYTES,
    LIMIT_TIMELINE_MEMORY_BYTES,
    LINE_BYTES,
    RANK_MAX,
    WHEN_FULL,
    WHEN_WRITER_GONE,
)
from .errors import CudaIpcError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]*\Z")


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r}")
    if is_name(name):
        return name
    shown = json.dumps(name if len(name) <= 60 else name[:60] + "...")
    is_path = "/" in name or name.endswith((".safetensors", ".npy"))
    hint = ". A file is loaded by the command `cuda-ipc put NAME FILE`" if is_path else ""
    raise CudaIpcError(
        "INVALID_NAME",
        f"Cannot use {shown} as a name: wanted 1 to {LIMIT_NAME_BYTES} letters, digits, '.', '_', "
        f"'-' or ':', the first a letter, digit or '_'{hint}",
    )


_UUID = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


#: 64 bytes in base64.
_HANDLE = re.compile(r"[A-Za-z0-9+/]{86}==\Z")


def _checked_uuid(value: object) -> str:
    require(isinstance(value, str) and _UUID.match(value) is not None, f"uuid is {value!r}")
    return str(value)


class MemorySource(NamedTuple):
    """The memory of an object, before it is mapped."""

    #: None for host memory.
    uuid: str | None
    byte_length: int
    allocation_byte_length: int
    #: Of memory that only its owner keeps alive: 64 bytes.
    handle: bytes | None = None

    def map(self, fd: int, readonly: bool, private: bool = False) -> Memory:
        """With `private`, host memory is copied on write. A GPU cannot do that."""
        if self.handle is not None:
            from ._legacy import open_named

            uuid = str(self.uuid)
            return open_named(uuid, self.allocation_byte_length, self.handle, fd, readonly)
        if self.uuid is None:
            check_file(fd, self.allocation_byte_length, "the memory file")
            return HostMemory(fd, self.allocation_byte_length, readonly, private)
        from ._cuda import import_memory

        return import_memory(fd, self.allocation_byte_length, readonly, self.uuid)


_DESCRIPTOR = frozenset(
    (
        *("version", "device", "mechanism", "pooled", "legacy", "byteLength"),
        *("allocationByteLength", "content", "replicaOf"),
    )
)
_CONTENT = {
    "array": frozenset(("kind", "array")),
    "bundle": frozenset(("kind", "arrayCount", "indexByteLength")),
    "timeline": frozenset(("kind", "byteOffset", "whenOwnerGone")),
    "channel": frozenset(
        (
            *("kind", "dtype", "shape", "slots", "readersMax", "slotBytes", "slotStride"),
            *("metaBytesMax", "whenFull", "whenWriterGone"),
        )
    ),
}
KINDS = tuple(_CONTENT)


def is_name(name: object) -> bool:
    is_text = isinstance(name, str) and len(name) <= LIMIT_NAME_BYTES
    return is_text and _NAME.match(cast(str, name)) is not None


def _check_origin(origin: object) -> None:
    """Of a copy that a bridge made."""
    only(origin, frozenset(("machine", "object")), "replicaOf")
    assert isinstance(origin, Mapping)
    require(is_name(origin.get("machine")), f"replicaOf is {origin!r}")
    integer(origin.get("object"), 1, "the number in replicaOf")


def checked_descriptor(descriptor: object) -> tuple[MemorySource, Mapping[str, Any]]:
    """Where the memory lies, and the content. The content itself is checked by kind."""
    only(descriptor, _DESCRIPTOR, "the descriptor")
    assert isinstance(descriptor, Mapping)
    integer(descriptor.get("version"), DESCRIPTOR_VERSION, "version", DESCRIPTOR_VERSION)
    whole = integer(descriptor.get("allocationByteLength"), 1, "allocationByteLength")
    used = integer(descriptor.get("byteLength"), 0, "byteLength", whole)
    device, content = descriptor.get("device"), descriptor.get("content")
    require(isinstance(device, Mapping), f"device is {device!r}")
    require(isinstance(content, Mapping), f"content is {content!r}")
    assert isinstance(device, Mapping) and isinstance(content, Mapping)
    kind = content.get("kind")
    fields = _CONTENT.get(kind) if isinstance(kind, str) else None
    require(fields is not None, f"it is of the unknown kind {kind!r}")
    only(content, cast("frozenset[str]", fields), "the content")
    if "replicaOf" in descriptor:
        _check_origin(descriptor["replicaOf"])
    where = (device.get("kind"), descriptor.get("mechanism"))
    if where[1] == "pool":
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot open memory of a pool from Python. Create the object without a pool.",
        )
    if where == ("host", "legacy"):
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot open legacy memory of the host device from Python. Create the object without "
            "a mechanism.",
        )
    known = (("host", "memfd"), ("cuda", "vmm"), ("cuda", "legacy"))
    require(where in known, f"device and mechanism are {where}")
    uuid = _checked_uuid(device.get("uuid")) if where[0] == "cuda" else None
    only(device, frozenset(("kind",) if uuid is None else ("kind", "uuid")), "device")
    require("pooled" not in descriptor, "it is in no pool, and has the name of one")
    is_legacy = where[1] == "legacy"
    require(is_legacy == ("legacy" in descriptor), f"legacy is {descriptor.get('legacy')!r}")
    handle = _checked_handle(descriptor["legacy"]) if is_legacy else None
    return MemorySource(uuid, used, whole, handle), content


def _checked_handle(legacy: object) -> bytes:
    text = legacy.get("handle") if isinstance(legacy, Mapping) else None
    is_handle = isinstance(text, str) and _HANDLE.match(text) is not None
    require(is_handle, f"the handle is {text!r}")
    # WHY here: few objects need it.
    import base64

    return base64.b64decode(str(text))


def wrong_kind(name: str, kind: object, wanted: str) -> CudaIpcError:
    uses = {
        "array": "open()",
        "bundle": "open_bundle()",
        "timeline": "open_timeline()",
        "channel": "open_channel()",
    }
    use = uses.get(str(kind))
    hint = f"; use {use}" if use is not None else ""
    article = "an" if kind == "array" else "a"
    return CudaIpcError(
        "WRONG_KIND", f'Cannot open "{name}" as {wanted}: it is {article} {kind}{hint}'
    )


def make_descriptor(
    uuid: str | None,
    byte_length: int,
    allocated: int,
    content: Mapping[str, Any],
    handle: bytes | None = None,
) -> dict[str, Any]:
    device = {"kind": "host"} if uuid is None else {"kind": "cuda", "uuid": uuid}
    descriptor: dict[str, Any] = {"version": DESCRIPTOR_VERSION, "device": device}
    if handle is None:
        descriptor["mechanism"] = "memfd" if uuid is None else "vmm"
    else:
        import base64

        descriptor["mechanism"] = "legacy"
        descriptor["legacy"] = {"handle": base64.b64encode(handle).decode()}
    descriptor["byteLength"] = byte_length
    descriptor["allocationByteLength"] = allocated
    descriptor["content"] = content
    return descriptor


# ---------------------------------------------------------------- timelines


def timeline_offset(content: Mapping[str, Any], source: MemorySource) -> int:
    offset = integer(content.get("byteOffset"), 0, "byteOffset")
    gone = content.get("whenOwnerGone", "end")
    require(gone in WHEN_WRITER_GONE, f"whenOwnerGone is {gone!r}")
    require(source.uuid is None, "a timeline lies on a GPU")
    small = source.allocation_byte_length <= LIMIT_TIMELINE_MEMORY_BYTES
    require(small, f"a timeline in {source.allocation_byte_length} bytes")
    inside = offset % LINE_BYTES == 0 and offset + LINE_BYTES <= source.byte_length
    require(inside, f"a timeline at byte {offset} of {source.byte_length}")
    return offset


# ---------------------------------------------------------------- channels


class ChannelFacts(NamedTuple):
    """What never changes about a channel."""

    dtype: DType
    shape: tuple[int, ...]
    slots: int
    readers_max: int
    slot_bytes: int
    slot_stride: int
    meta_bytes_max: int
    when_full: WhenFull
    when_writer_gone: WhenWriterGone

    @property
    def header_stride(self) -> int:
        return HEADER_META + -(-self.meta_bytes_max // LINE_BYTES) * LINE_BYTES

    @property
    def control_bytes(self) -> int:
        return HEADERS_AT + self.slots * self.header_stride

    @property
    def memory_slots(self) -> int:
        """With drop-newest there is one more slot, for messages that are dropped."""
        return self.slots + (self.when_full == "drop-newest")

    def content(self) -> dict[str, Any]:
        return {
            "kind": "channel",
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "slots": self.slots,
            "readersMax": self.readers_max,
            "slotBytes": self.slot_bytes,
            "slotStride": self.slot_stride,
            "metaBytesMax": self.meta_bytes_max,
            "whenFull": self.when_full,
            "whenWriterGone": self.when_writer_gone,
        }


def channel_facts(content: Mapping[str, Any], source: MemorySource) -> ChannelFacts:
    dtype = DTYPES.get(str(content.get("dtype")))
    require(dtype is not None, f"dtype is {content.get('dtype')!r}")
    shape = content.get("shape")
    require(isinstance(shape, list) and len(shape) <= RANK_MAX, f"shape is {shape!r}")
    lengths = tuple(integer(length, 0, "a length") for length in shape or ())
    full, gone = content.get("whenFull"), content.get("whenWriterGone")
    require(full in WHEN_FULL, f"whenFull is {full!r}")
    require(gone in WHEN_WRITER_GONE, f"whenWriterGone is {gone!r}")
    facts = ChannelFacts(
        cast(DType, dtype),
        lengths,
        integer(content.get("slots"), 1, "slots", LIMIT_CHANNEL_SLOTS),
        integer(content.get("readersMax"), 1, "readersMax", LIMIT_CHANNEL_READERS),
        integer(content.get("slotBytes"), 1, "slotBytes"),
        integer(content.get("slotStride"), 1, "slotStride"),
        integer(content.get("metaBytesMax"), 0, "metaBytesMax", LIMIT_CHANNEL_META_BYTES),
        cast(WhenFull, full),
        cast(WhenWriterGone, gone),
    )
    size = math.prod(lengths) * facts.dtype.itemsize
    require(size == facts.slot_bytes, f"slots of {facts.slot_bytes} bytes for {size}")
    stride = facts.slot_stride
    apart = stride >= facts.slot_bytes and stride % facts.dtype.itemsize == 0
    require(apart, f"slots of {facts.slot_bytes} bytes at every {stride}th byte")
    fits = stride * facts.memory_slots == source.byte_length
    require(fits, f"{facts.memory_slots} slots of {stride} in {source.byte_length} bytes")
    require(
        facts.control_bytes <= LIMIT_CHANNEL_CONTROL_BYTES,
        f"a control file of {facts.control_bytes} bytes",
    )
    return facts


def check_channel_files(facts: ChannelFacts, fds: Sequence[int], pages: Sequence[int]) -> None:
    """The control file at 1, and pages at these numbers."""
    check_file(fds[1], facts.control_bytes, "the control file", exact=True)
    for at in pages:
        check_file(fds[at], 4096, "a page", exact=True)
    for at in range(2, len(fds)):
        if at not in pages:
            target = os.readlink(f"/proc/self/fd/{fds[at]}")
            require(target == "anon_inode:[eventfd]", f"a bell is {target}")
