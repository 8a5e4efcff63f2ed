"""The members of a group, and pidfds that tell which have died."""

from __future__ import annotations

import errno
import os
import re
import select
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._fds import close_all
from ..errors import CudaIpcError, coded, system_error

_SO_PEERPIDFD = 77


class Member(NamedTuple):
    """A process, as all members name it."""

    pid: int
    #: Clock ticks from the boot to its start.
    start_ticks: int
    #: The PID namespace of `pid`.
    pid_namespace: int

    def document(self) -> dict[str, int]:
        return {
            "pid": self.pid,
            "startTicks": self.start_ticks,
            "pidNamespace": self.pid_namespace,
        }


def member_of(document: Any) -> Member:
    """Raises INVALID_MESSAGE."""
    keys = ("pid", "startTicks", "pidNamespace")
    values = [document.get(key) if isinstance(document, dict) else None for key in keys]
    if not all(type(value) is int and value >= 0 for value in values) or values[0] == 0:
        raise CudaIpcError("INVALID_MESSAGE", f"Cannot accept the member {document!r}"[:300])
    return Member(*values)  # type: ignore[arg-type]


def own_member() -> Member:
    """Raises UNSUPPORTED if /proc is not mounted."""
    try:
        ticks = start_ticks("self")
        found = re.fullmatch(r"pid:\[(\d+)\]", os.readlink("/proc/self/ns/pid"))
    except OSError as cause:
        if cause.errno in (errno.EMFILE, errno.ENFILE):
            raise system_error("identify this process", cause) from cause
        ticks, found = None, None
    if ticks is None or found is None:
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot identify this process: /proc cannot be read. Mount it, as containers have it "
            "unless they are told otherwise.",
        )
    return Member(os.getpid(), ticks, int(found[1]))


def start_ticks(pid: int | str) -> int | None:
    """When the process started; None if there is none. Its name may hold spaces and parentheses."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError, IndexError, ValueError):
        return None


def peer_pidfd(connected: socket.socket, pid: int) -> int | None:
    """A pidfd of the process at the other end. None if it cannot be watched."""
    try:
        return connected.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        pass  # Linux before 6.5
    try:
        return os.pidfd_open(pid) if pid > 0 else None
    except OSError:
        return None


def ranks_with_pidfd(members: Sequence[Member], receiver: int) -> list[int]:
    """The ranks that a member watches by pidfds from rank 0.

    Those outside rank 0's PID namespace, or all if it is outside itself. It finds the others by
    their pids: Linux limits the descriptors in flight for each user.
    """

    def is_local(rank: int) -> bool:
        return members[rank].pid_namespace == members[0].pid_namespace

    others = [rank for rank in range(len(members)) if rank != receiver]
    return [rank for rank in others if not is_local(rank) or not is_local(receiver)]


class MemberWatches:
    """Owns pidfds of all other members."""

    def __init__(self, members: Sequence[Member], own: int, pidfds: Mapping[int, int]) -> None:
        """Takes over the pidfds. Raises TOO_MANY_FDS."""
        self._poll = select.poll()
        self._fds: dict[int, int] = {}
        self._gone: list[int] = []
        try:
            for rank, member in enumerate(members):
                if rank == own:
                    continue
                pidfd = pidfds[rank] if rank in pidfds else _open_process(member)
                if pidfd is None:
                    self._gone.append(rank)
                else:
                    self._fds[pidfd] = rank
                    self._poll.register(pidfd, select.POLLIN)
        except BaseException:
            close_all(set(self._fds) - set(pidfds.values()))
            raise

    def first_gone(self) -> int | None:
        """The rank whose process died first; None if none has."""
        for pidfd, _ in self._poll.poll(0):
            self._poll.unregister(pidfd)
            self._gone.append(self._fds[pidfd])
        return self._gone[0] if self._gone else None

    def close(self) -> None:
        close_all(self._fds)
        self._fds = {}


def _open_process(member: Member) -> int | None:
    """A pidfd of exactly this process. None if it is gone."""
    try:
        pidfd = os.pidfd_open(member.pid)
    except ProcessLookupError:
        return None
    except OSError as cause:
        raise system_error(f"watch process {member.pid}", cause) from cause
    # WHY after: a pidfd stays with its process, and this shows that it is the right one.
    try:
        with coded(f"watch process {member.pid}"):
            is_same = start_ticks(member.pid) == member.start_ticks
    except BaseException:
        os.close(pidfd)
        raise
    if is_same:
        return pidfd
    os.close(pidfd)
    return None
