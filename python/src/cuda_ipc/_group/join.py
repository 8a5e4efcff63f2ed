"""Joins a group as any rank but 0."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from .._deadline import Deadline, GrowingPause
from .._fds import close_all
from .._hub_socket import peer_of
from .._protocol import LIMIT_FDS
from ..errors import CudaIpcError, CudaIpcTimeout, coded, system_error
from .admission import Address
from .members import Member, member_of, own_member, ranks_with_pidfd
from .messages import ANSWER_BYTES_MAX, decode, encode
from .words import GroupWords

_FOUND = {
    errno.ENOENT: "there is no such socket. Check that rank 0 runs",
    errno.ENOTDIR: "there is no such socket. Check that rank 0 runs",
    errno.ECONNREFUSED: "there is a socket file but nobody listens, because the process that made "
    "it has ended",
    errno.EAGAIN: "the listening process accepts no connections",
}
_CONTROL_BYTES = socket.CMSG_SPACE(LIMIT_FDS * 4)


class Joined(NamedTuple):
    #: Open until the first barrier is complete. By it rank 0 sees a member that gives up before.
    connection: socket.socket
    words: GroupWords
    members: list[Member]
    #: By rank. The caller closes them.
    pidfds: dict[int, int]


def join_host(address: Address, rank: int, deadline: Deadline) -> Joined:
    """Raises what rank 0 answers; TIMEOUT, PEER_GONE, UNTRUSTED_PEER, INVALID_MESSAGE."""
    connection = _connect(address.path, deadline)
    fds: list[int] = []
    try:
        pid, uid = peer_of(connection)
        if uid != os.geteuid():
            raise CudaIpcError(
                "UNTRUSTED_PEER",
                f"Cannot trust the process that listens at {address.path}: it runs as user {uid}, "
                f"this process as {os.geteuid()}",
            )
        request = {"op": "join", "rank": rank, "size": address.size}
        with contextlib.suppress(OSError):  # a listener says why before it hangs up
            connection.send(
                encode({**request, "member": own_member().document()}), socket.MSG_NOSIGNAL
            )
        packet = _receive(address, connection, pid, fds, deadline)
        members = _members(address, rank, packet)
        ranks = ranks_with_pidfd(members, rank)
        if len(fds) != 1 + len(ranks):
            raise CudaIpcError(
                "INVALID_MESSAGE",
                f"Cannot join {address.label}: {len(fds)} file descriptors came, wanted "
                f"{1 + len(ranks)}",
            )
        words = GroupWords.open(fds[0], rank, address.size)
        os.close(fds.pop(0))
        return Joined(connection, words, members, dict(zip(ranks, fds, strict=True)))
    except BaseException:
        close_all(fds)
        connection.close()
        raise


def _connect(path: str, deadline: Deadline) -> socket.socket:
    pauses = GrowingPause(0.05)
    while True:
        deadline.check_cancelled()
        with coded(deadline.attempt):
            connection = socket.socket(
                socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )
        try:
            connection.connect(path)
            return connection
        except OSError as cause:
            connection.close()
            if cause.errno not in _FOUND:
                raise system_error(deadline.attempt, cause) from cause
            found = f"at {path} {_FOUND[cause.errno]}"
            remaining = deadline.remaining
            if remaining == 0:
                late = deadline.timed_out(found)
                if cause.errno == errno.ECONNREFUSED:
                    raise CudaIpcError("PEER_GONE", late.message) from cause
                raise late from cause
        except BaseException:
            connection.close()
            raise
        pause = pauses.next()
        time.sleep(pause if remaining is None else min(pause, remaining))


def _receive(
    address: Address, connection: socket.socket, pid: int, fds: list[int], deadline: Deadline
) -> bytes:
    """The answer of rank 0. Adds its descriptors to the list, whose owner closes them."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    hang_up: Callable[[], object] = lambda: connection.shutdown(socket.SHUT_RDWR)  # noqa: E731
    deadline.on_cancel(hang_up)
    try:
        if not poll.poll(deadline.remaining_ms):
            raise deadline.timed_out(
                f"rank 0 (process {pid}) waits for other members, or is stopped"
            )
        deadline.check_cancelled()
        packet, control, flags, _ = connection.recvmsg(
            ANSWER_BYTES_MAX, _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC
        )
    except CudaIpcTimeout:
        raise
    except OSError as cause:
        packet, control, flags = b"", [], 0
        if not isinstance(cause, ConnectionError):
            raise system_error(deadline.attempt, cause) from cause
    finally:
        deadline.on_cancel(None)
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found = array.array("i")
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
            fds += found
    if packet == b"":
        raise CudaIpcError(
            "PEER_GONE", f"Cannot join {address.label}: rank 0 closed the connection"
        )
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise CudaIpcError(
            "TOO_MANY_FDS", f"Cannot join {address.label}: part of the answer was lost on the way"
        )
    return packet


def _members(address: Address, rank: int, packet: bytes) -> list[Member]:
    reply = decode(f"the answer of rank 0 of {address.label}", packet)
    listed = reply.get("members")
    members = [member_of(one) for one in listed] if isinstance(listed, list) else []
    if len(members) == address.size and members[rank].pid == os.getpid():
        return members
    raise CudaIpcError(
        "INVALID_MESSAGE",
        f"Cannot join {address.label}: rank 0 names {len(members)} members, of which rank {rank} "
        "is not this process",
    )
