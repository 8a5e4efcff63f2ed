"""The messages with which a group forms: one JSON document in each packet."""

from __future__ import annotations

import array
import socket
from collections.abc import Sequence
from typing import Any

from .._deadline import Deadline
from .._json import encode_json, parse_json
from .._packets import rest_in_flight
from ..errors import CudaIpcError, error

VERSION = 1
#: A request, and the answer with all members.
ANSWER_BYTES_MAX = 65536


def encode(document: dict[str, Any]) -> bytes:
    return encode_json({"v": VERSION, **document}, "replace")


def refusal(wrong: CudaIpcError) -> bytes:
    text = {"code": wrong.code, "message": wrong.message[:1024]}
    return encode({"ok": False, "error": text})


def decode(what: str, raw: bytes) -> dict[str, Any]:
    """Raises INVALID_MESSAGE, PROTOCOL_MISMATCH, and the error of a refusal."""
    try:
        found = parse_json(raw)
    except ValueError as wrong:
        raise CudaIpcError("INVALID_MESSAGE", f"Cannot accept {what}: {wrong}") from wrong
    if not isinstance(found, dict):
        raise CudaIpcError("INVALID_MESSAGE", f"Cannot accept {what}: it is {raw[:100]!r}")
    if found.get("v") != VERSION:
        raise CudaIpcError(
            "PROTOCOL_MISMATCH",
            f"Cannot accept {what}: it is of version {found.get('v')!r}, wanted {VERSION}",
        )
    if found.get("ok") is False:
        refused = found.get("error")
        if not isinstance(refused, dict):
            raise CudaIpcError("INVALID_MESSAGE", f"Cannot accept {what}: it is {raw[:100]!r}")
        raise error(str(refused.get("code")), str(refused.get("message")))
    return found


def send_with(
    connected: socket.socket, packet: bytes, fds: Sequence[int], deadline: Deadline
) -> None:
    """Raises OSError, TIMEOUT."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    while True:
        deadline.check_cancelled()
        try:
            connected.sendmsg([packet], rights, socket.MSG_NOSIGNAL)
            return
        except OSError as cause:
            if not rest_in_flight(cause, deadline):
                raise
