"""Forms a group, or joins the one that rank 0 forms."""

from __future__ import annotations

import contextlib
import os

from .._deadline import Deadline
from .._descriptors import check_name
from .._fds import close_all
from .._hub_socket import hub_socket_path, runtime_socket_path
from .._patched import refuse_patched
from .._protocol import LIMIT_GROUP_SIZE
from .._waiting import run_pauses
from ..groups import Group
from .admission import Address
from .host import GroupHost
from .join import join_host
from .members import MemberWatches
from .words import GroupWords


def join_group(
    name: str | None,
    path: str | os.PathLike[str] | None,
    rank: int,
    size: int,
    deadline: Deadline,
) -> Group:
    refuse_patched("join a group")
    for what, value, low, high in (("size", size, 1, LIMIT_GROUP_SIZE), ("rank", rank, 0, size)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{what} must be an integer, not {value!r}")
        if not low <= value <= high or (what == "rank" and rank == size):
            raise ValueError(f"{what} must be from {low} to {high - (what == 'rank')}, not {value}")
    address = _address(name, path, size)
    deadline.attempt = f"join {address.label}"
    deadline.check(lambda: "no time was left")
    with contextlib.ExitStack() as undo:
        host = connection = None
        if rank == 0:
            host = GroupHost(address)
            # WHY first: a signal may end this call at any moment.
            undo.callback(host.close)
            host.listen()
            memory, words = GroupWords.create(size)
            undo.callback(words.close)
            try:
                members, pidfds = host.assemble(memory, deadline)
            finally:
                os.close(memory)
        else:
            connection, words, members, pidfds = join_host(address, rank, deadline)
            undo.callback(connection.close)
            undo.callback(words.close)
        # WHY nothing is waited for from here to the barrier: rank 0 has told the members that the
        # group is complete. Each must arrive at the first barrier, or be seen to have given up.
        try:
            watches = MemberWatches(members, rank, pidfds)
        except BaseException:
            close_all(pidfds.values())
            raise
        undo.callback(watches.close)
        group = Group(address.label, words, members, watches, host)
        undo.pop_all()
        try:
            run_pauses(group._meet(deadline))
        except BaseException:
            group.close()
            raise
        finally:
            if connection is not None:
                connection.close()
        group._is_formed = True
        return group


def _address(name: str | None, path: str | os.PathLike[str] | None, size: int) -> Address:
    if (name is None) == (path is None):
        raise TypeError("a group has either a name or a path")
    if name is None:
        found = hub_socket_path(path)
        return Address(found, size, f"the group at {found}")
    return Address(runtime_socket_path(f"group-{check_name(name)}.sock"), size, f'group "{name}"')
