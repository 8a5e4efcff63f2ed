"""Decides whether a barrier is complete or can never be.

It looks at the members' words, and at who has died.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import CudaIpcError
from .members import Member
from .words import GAVE_UP, LEFT, SAW_DEATH, GroupWords


class Broken(NamedTuple):
    failure: CudaIpcError
    #: What this member writes for others, who may not find out by themselves: reason and rank.
    end: tuple[int, int] | None


def judge_barrier(
    words: GroupWords,
    barrier: int,
    members: Sequence[Member],
    first_gone: Callable[[], int | None],
    attempt: str,
) -> bool | Broken:
    """True if it is complete, False if it may still be."""

    def failure(code: str, rank: int, found: str) -> CudaIpcError:
        return CudaIpcError(
            code, f"Cannot {attempt}: rank {rank} (process {members[rank].pid}) {found}"
        )

    def nonsense(rank: int) -> Broken:
        found = failure("BARRIER_BROKEN", rank, "wrote a value that no member writes")
        return Broken(found, (GAVE_UP, words.rank))

    # SYNC: reads who is gone before who has arrived. A member that passed this barrier and then
    # died must count as passed.
    gone = first_gone()
    gave_up: int | None = None
    for rank in range(words.size):
        try:
            end = words.ended(rank)
        except ValueError:
            return nonsense(rank)
        if end is None or end.barrier > barrier:
            continue
        if end.reason == LEFT:
            return Broken(failure("PEER_GONE", rank, "has left the group"), None)
        if end.reason == SAW_DEATH:
            return Broken(failure("PEER_GONE", end.rank, "has ended"), None)
        gave_up = rank
    missing = False
    for rank in range(words.size):
        ahead = words.arrived(rank) - barrier
        # A correct member is at most one barrier behind (it passed the last one with us), or one
        # ahead (we have not yet seen that this one is complete).
        if not -1 <= ahead <= 1:
            return nonsense(rank)
        if ahead < 0:
            missing = True
    if not missing and gave_up is None:
        return True
    if gone is not None:
        # The others must be told: a later member may see that the dead one had arrived, and would
        # pass a barrier that failed here.
        return Broken(failure("PEER_GONE", gone, "has ended"), (SAW_DEATH, gone))
    if gave_up is None:
        return False
    return Broken(failure("BARRIER_BROKEN", gave_up, "gave up waiting"), None)


def missing_words(words: GroupWords, members: Sequence[Member]) -> str:
    """The members that have not arrived at this member's barrier, for errors."""
    own = words.arrived(words.rank)
    missing = [
        f"rank {rank} (process {member.pid})"
        for rank, member in enumerate(members)
        if words.arrived(rank) < own
    ]
    more = f", and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{', '.join(missing[:3])}{more} {'has' if len(missing) == 1 else 'have'} not come"
