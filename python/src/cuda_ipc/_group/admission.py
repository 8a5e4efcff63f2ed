"""Whether rank 0 of a group admits a process that asks to join."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from .._hub_socket import peer_of
from .._protocol import LIMIT_FDS, LIMIT_PEER_REQUEST_BYTES
from ..errors import CudaIpcError
from .members import Member, member_of, own_member, peer_pidfd, start_ticks
from .messages import decode


class Address(NamedTuple):
    path: str
    size: int
    #: The group in messages: `group "name"`.
    label: str


class Admitted(NamedTuple):
    client: socket.socket
    member: Member
    pidfd: int


def admission(
    address: Address, admitted: Mapping[int, Admitted], client: socket.socket, packet: bytes
) -> tuple[int, Admitted]:
    """The rank of the process, and what it is admitted as. Raises the error of a refusal."""
    if len(packet) > LIMIT_PEER_REQUEST_BYTES:
        raise CudaIpcError(
            "MESSAGE_TOO_LARGE",
            f"Cannot accept a request at {address.path}: it has more than "
            f"{LIMIT_PEER_REQUEST_BYTES} bytes",
        )
    request = decode("a request to join a group", packet)
    rank, size = request.get("rank"), request.get("size")
    if request.get("op") != "join" or type(rank) is not int or type(size) is not int:
        raise CudaIpcError("INVALID_MESSAGE", f"Cannot accept the request {packet[:100]!r}")
    member = member_of(request.get("member"))

    def refuse(code: str, found: str) -> CudaIpcError:
        return CudaIpcError(code, f"Cannot join {address.label} as rank {rank} of {size}: {found}")

    if size != address.size:
        raise refuse("WRONG_KIND", f"it is a group of {address.size}")
    if not 0 <= rank < size:
        raise refuse("INVALID_MESSAGE", f"ranks are from 0 to {size - 1}")
    taken = os.getpid() if rank == 0 else None
    if rank in admitted:
        taken = admitted[rank].member.pid
    if taken is not None:
        raise refuse("NAME_TAKEN", f"process {taken} is rank {rank}")
    if any(one.client is client for one in admitted.values()):
        raise refuse("INVALID_MESSAGE", "the same connection has joined before")
    pid, _ = peer_of(client)
    found = _contradiction(address, pid, member)
    if found is not None:
        raise refuse("UNSUPPORTED", found)
    pidfd = peer_pidfd(client, pid)
    if pidfd is None:
        raise refuse("UNSUPPORTED", "rank 0 cannot watch its process; see docs/containers.md")
    return rank, Admitted(client, member, pidfd)


def _contradiction(address: Address, pid: int, member: Member) -> str | None:
    """A pid in this namespace must be what the kernel says. Others are for messages alone."""
    if member.pid_namespace != own_member().pid_namespace:
        if address.size > LIMIT_FDS:
            return f"a group over several PID namespaces has at most {LIMIT_FDS} members"
        return None
    if member.pid == pid and member.start_ticks == start_ticks(pid):
        return None
    return f"it says it is process {member.pid}, and is {pid}"
