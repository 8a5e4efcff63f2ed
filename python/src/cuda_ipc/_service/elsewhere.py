"""Asks the bridge of this machine for a worker of another one; see docs/machines.md."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._deadline import Deadline
from .._hub_socket import peer_of
from .._json import encode_json, parse_json
from .._protocol import LIMIT_FAR_WORKERS, LIMIT_MESSAGE_BYTES
from ..errors import CudaIpcError, coded, error, system_error
from .names import FoundOffer

_LOOK_MS = 100


class FarOffer(NamedTuple):
    offer: FoundOffer
    machine: str


def ask_for_worker(
    hub_path: str, service: str, known: Sequence[str], deadline: Deadline
) -> FarOffer:
    """An offer on this machine's hub, which the bridge made for this client alone.

    `known` are workers that are not wanted. Raises BRIDGE_UNAVAILABLE; NOT_FOUND if no machine has
    a free worker; PEER_GONE, TIMEOUT, UNTRUSTED_PEER, INVALID_MESSAGE.
    """
    path = os.environ.get("CUDA_IPC_BRIDGE_SOCKET") or f"{hub_path}.bridge"
    with coded(f"connect to the bridge at {path}"):
        bridge = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    with bridge:
        bridge.setblocking(False)
        try:
            bridge.connect(path)
        except (FileNotFoundError, ConnectionRefusedError) as cause:
            raise CudaIpcError(
                "BRIDGE_UNAVAILABLE", f"Cannot ask other machines: no bridge listens at {path}"
            ) from cause
        except OSError as cause:
            raise system_error(f"connect to the bridge at {path}", cause) from cause
        user = peer_of(bridge)[1]
        if user != os.geteuid():
            raise CudaIpcError(
                "UNTRUSTED_PEER",
                f"Cannot trust the bridge at {path}: it runs as user {user}, this process as "
                f"{os.geteuid()}",
            )
        unwanted = list(known)[:LIMIT_FAR_WORKERS]
        request = {"v": 1, "op": "worker", "service": service, "except": unwanted}
        # WHY suppressed: the bridge says why before it closes the connection.
        with contextlib.suppress(OSError):
            bridge.send(encode_json(request), socket.MSG_NOSIGNAL)
        return _offer_of(path, _packet(bridge, path, deadline))


def _packet(bridge: socket.socket, path: str, deadline: Deadline) -> bytes:
    poll = select.poll()
    poll.register(bridge, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        deadline.check(lambda: "the bridge has not answered")
    try:
        packet = bridge.recv(LIMIT_MESSAGE_BYTES)
    except OSError as cause:
        raise system_error(f"read the answer of the bridge at {path}", cause) from cause
    if packet == b"":
        raise CudaIpcError("PEER_GONE", f"Cannot ask the bridge at {path}: it has ended")
    return packet


def _offer_of(path: str, packet: bytes) -> FarOffer:
    try:
        reply: Any = parse_json(packet)
    except ValueError:
        reply = None
    if isinstance(reply, dict) and reply.get("ok") is False:
        refused = reply.get("error")
        if isinstance(refused, dict):
            raise error(str(refused.get("code")), str(refused.get("message")))
    if isinstance(reply, dict) and reply.get("ok") is True:
        words = [reply.get(key) for key in ("worker", "name", "machine")]
        if all(isinstance(word, str) for word in words):
            worker, name, machine = map(str, words)
            return FarOffer(FoundOffer(worker, name), machine)
    raise CudaIpcError("INVALID_MESSAGE", f"Cannot read the answer of the bridge at {path}")
