"""The 24 bytes before the meta of each message of a link. docs/protocol.md has the table."""

from __future__ import annotations

import struct
import time
from typing import Any, Final

from .._json import encode_json, parse_json
from .._message_format import too_large
from ..errors import CudaIpcError

_HEADER = struct.Struct("<BB6xQQ")
ENVELOPE_BYTES: Final = 24
_NUMBER_MAX: Final = 2**53 - 1

HELLO: Final = 1
REQUEST: Final = 2
CANCEL: Final = 3
REPLY: Final = 4
#: The handler raised. The meta describes the error.
FAILED: Final = 5
#: The worker did not begin the request. Another worker may take it.
REFUSED: Final = 6
#: The request was cancelled, or its deadline passed.
DROPPED: Final = 7
#: The worker was closed after it began the request and before it finished.
ABANDONED: Final = 8


def encode_envelope(
    name: str, kind: int, number: int, meta: Any, bytes_max: int, deadline_micros: int = 0
) -> bytes:
    """The envelope and the user's meta. Raises MESSAGE_TOO_LARGE; TypeError if it is not JSON."""
    is_json = False
    if meta is None:
        raw = b""
    elif isinstance(meta, (bytes, bytearray, memoryview)):
        raw = bytes(meta)
    else:
        is_json = True
        raw = encode_json(meta)
    if len(raw) > bytes_max - ENVELOPE_BYTES:
        raise too_large(name, len(raw), bytes_max - ENVELOPE_BYTES, "bytes of meta")
    return _HEADER.pack(kind, is_json, number, deadline_micros) + raw


class Envelope:
    """A received header and the user's meta after it. Raises CHANNEL_CORRUPT."""

    __slots__ = ("_is_json", "_name", "deadline_micros", "kind", "meta", "number")

    def __init__(self, name: str, raw: bytes) -> None:
        if len(raw) < ENVELOPE_BYTES:
            raise _corrupt(name, f"{len(raw)} bytes of envelope, wanted {ENVELOPE_BYTES}")
        kind, is_json, number, deadline = _HEADER.unpack_from(raw)
        if not HELLO <= kind <= ABANDONED:
            raise _corrupt(name, f"unknown kind {kind}")
        if number > _NUMBER_MAX:
            raise _corrupt(name, f"request number {number} is over 2**53 - 1")
        self._name = name
        self._is_json = is_json == 1
        self.kind: int = kind
        self.number: int = number
        #: The microsecond of CLOCK_MONOTONIC from which on nobody waits; 0 for none.
        self.deadline_micros: int = deadline
        self.meta = raw[ENVELOPE_BYTES:]

    @property
    def json(self) -> Any:
        """The meta as the value that was sent; None if it is bytes, or there is none."""
        if not self._is_json:
            return None
        try:
            return parse_json(self.meta)
        except ValueError as wrong:
            raise _corrupt(self._name, f"its meta is not JSON: {wrong}") from wrong


def _corrupt(name: str, found: str) -> CudaIpcError:
    return CudaIpcError("CHANNEL_CORRUPT", f'Cannot read a message of "{name}": {found}')


def monotonic_micros() -> int:
    """The machine's monotonic clock, which all processes share and nobody sets."""
    return time.monotonic_ns() // 1000
