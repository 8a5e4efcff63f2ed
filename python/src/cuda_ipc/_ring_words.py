"""Indices of words in a channel's files, made from the byte offsets of docs/protocol.md."""

from __future__ import annotations

import struct
from typing import Final

from . import _protocol as p

# Words of 8 bytes in the control file.
PUBLISHED: Final = p.CONTROL_PUBLISHED // 8
LIMIT: Final = p.CONTROL_LIMIT // 8
DROPPED: Final = p.CONTROL_DROPPED // 8
SEQUENCE: Final = p.CONTROL_SEQUENCE // 8
EXPELLED: Final = p.CONTROL_EXPELLED // 8
FIRST_POSITION: Final = p.CONTROL_FIRST_POSITION // 8
READY: Final = p.CONTROL_READY // 8
LINE: Final = p.LINE_BYTES // 8
HEADERS: Final = p.HEADERS_AT // 8
# Words of 4 bytes in the control file.
STATE: Final = p.CONTROL_STATE // 4
EPOCH: Final = p.CONTROL_EPOCH // 4
ASLEEP: Final = p.CONTROL_ASLEEP // 4

# Words of 8 bytes in a header.
H_PASSED_OVER: Final = p.HEADER_PASSED_OVER // 8
H_SEQUENCE: Final = p.HEADER_SEQUENCE // 8
H_READY_AT: Final = p.HEADER_READY_AT // 8
H_SHAPE: Final = p.HEADER_SHAPE // 8
H_FLAGS: Final = p.HEADER_FLAGS // 4
H_EPOCH: Final = p.HEADER_EPOCH // 4
#: From `sequence` on: sequence, timestamp, bytes, readyAt, epoch, flags, meta bytes, rank.
HEADER: Final = struct.Struct("=qdqqIIII")
assert HEADER.size == p.HEADER_RANK + 4 - p.HEADER_SEQUENCE

# Words in a page, of 8 and of 4 bytes.
P_LEASE: Final = p.PAGE_LEASE // 8
P_RELEASED: Final = p.PAGE_RELEASED // 8
P_GPU_RELEASED: Final = p.PAGE_GPU_RELEASED // 8
P_CLAIMS: Final = p.PAGE_CLAIMS // 8
P_DONE: Final = p.PAGE_DONE // 8
P_RECEIVED: Final = p.PAGE_RECEIVED // 8
P_MISSED: Final = p.PAGE_MISSED // 8
P_STATE: Final = p.PAGE_STATE // 4
P_MODE: Final = p.PAGE_MODE // 4
P_ASLEEP: Final = p.PAGE_ASLEEP // 4
