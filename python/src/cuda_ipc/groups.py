"""Groups: a fixed number of processes that meet at barriers and exchange values there.

If a member dies, leaves or gives up, the group breaks for all, with an error that names it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from ._closing import ClosingAsync, ClosingAwaited
from ._deadline import Deadline
from ._group.barrier import Broken, judge_barrier, missing_words
from ._group.host import GroupHost
from ._group.members import Member, MemberWatches
from ._group.words import GAVE_UP, LEFT, GroupWords
from ._json import encode_json, parse_json
from ._keywords import explains_keywords
from ._protocol import DEFAULT_MS_PEER, LIMIT_GATHER_BYTES
from ._waiting import async_close, async_form, pauses, run_pauses, suspend_pauses
from .errors import CudaIpcError, coded

PEER_S = DEFAULT_MS_PEER / 1000
#: A death is known this long after the socket closes. Without a death, the member gave up.
_DEATH_S = 0.25


class Group(ClosingAwaited, ClosingAsync):
    """One member of a group. `Group.join` makes it. Leaving `with` leaves the group."""

    def __init__(
        self,
        label: str,
        words: GroupWords,
        members: list[Member],
        watches: MemberWatches,
        host: GroupHost | None,
    ) -> None:
        super().__init__()
        self.rank = words.rank
        self.size = words.size
        self._label = label
        self._words = words
        self._members = members
        self._watches = watches
        self._host = host
        self._lock = threading.Lock()
        self._pid = os.getpid()
        # The barrier that this member entered last.
        self._barrier = 0
        self._is_waiting = False
        self._is_formed = False
        self._broken: CudaIpcError | None = None
        self._closed = False

    @staticmethod
    @explains_keywords
    @coded("join a group")  # its imports, too, open files
    def join(
        name: str | None = None,
        *,
        rank: int,
        size: int,
        path: str | os.PathLike[str] | None = None,
        timeout: float | None = PEER_S,
    ) -> Group:
        """Joins a group. Returns once all members have joined, of Python or of Node.

        All members give the same `name`, or the same `path` of a socket. `rank` is from 0 to
        `size` - 1, one process each; rank 0 makes the group. `timeout` is in seconds; None waits
        without a limit. Needs no hub.

        Raises TIMEOUT, which names the ranks that are missing; NAME_TAKEN if the name is in use or
        another process has this rank; WRONG_KIND if the group has another size; PEER_GONE,
        BARRIER_BROKEN, UNTRUSTED_PEER; TypeError, ValueError.
        """
        from ._group.forming import join_group

        return join_group(name, path, rank, size, Deadline("join a group", timeout))

    join_async = staticmethod(async_form(join))

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of all members, in the order of ranks, by their own numbers."""
        return tuple(member.pid for member in self._members)

    @explains_keywords
    def barrier(self, timeout: float | None = PEER_S) -> None:
        """Waits until all members have called this. Each member must call it equally often.

        Raises PEER_GONE, which names the rank that died or left; BARRIER_BROKEN if a member gave up
        waiting; TIMEOUT, which breaks the group for the others; CLOSED.
        """
        attempt = f"meet at a barrier of {self._label}"
        run_pauses(self._meet(Deadline(attempt, timeout)))

    @explains_keywords
    async def barrier_async(self, timeout: float | None = PEER_S) -> None:
        """As `barrier`, for asyncio. To cancel it breaks the group for the others."""
        attempt = f"meet at a barrier of {self._label}"
        await suspend_pauses(self._meet(Deadline(attempt, timeout)))

    @explains_keywords
    def all_gather(self, value: Any, timeout: float | None = PEER_S) -> list[Any]:
        """Exchanges one JSON value of each member, and returns them in the order of ranks.

        Each has at most 64 KiB of JSON. It is a barrier, too. The values of others are not checked.
        Raises as `barrier`; MESSAGE_TOO_LARGE, TypeError or ValueError before any wait.
        """
        attempt = f"gather from {self._label}"
        deadline, raw = Deadline(attempt, timeout), _encode(attempt, value)
        run_pauses(self._meet(deadline, lambda barrier: self._words.give(barrier, raw)))
        return self._values(attempt)

    @explains_keywords
    async def all_gather_async(self, value: Any, timeout: float | None = PEER_S) -> list[Any]:
        """As `all_gather`, for asyncio."""
        attempt = f"gather from {self._label}"
        deadline, raw = Deadline(attempt, timeout), _encode(attempt, value)
        await suspend_pauses(self._meet(deadline, lambda barrier: self._words.give(barrier, raw)))
        return self._values(attempt)

    def close(self) -> None:
        """Leaves the group. Members that wait for this one, now or later, get PEER_GONE."""
        if self._closed:
            return
        if os.getpid() == self._pid:
            self._leave_when_awake(self._leave, lambda: None)
        else:  # a thread that waits is the parent's
            self._leave()

    close_async = async_close(close)

    def _leave(self) -> None:
        self._closed = True
        is_own = os.getpid() == self._pid
        if is_own:
            barrier = self._barrier if self._is_waiting else self._barrier + 1
            self._words.end(barrier, LEFT, self.rank)
        self._watches.close()
        self._words.close()
        if self._host is not None:
            if is_own:
                self._host.close()
            else:
                self._host.abandon()

    def __repr__(self) -> str:
        return f"<Group rank {self.rank} of {self.size}{' closed' if self._closed else ''}>"

    # ------------------------------------------------ barriers

    def _meet(
        self, deadline: Deadline, before: Callable[[int], object] = lambda _: None
    ) -> Generator[float, None, None]:
        """Yields pauses in seconds until all have met."""
        attempt = deadline.attempt
        with self._lock:
            self._check_open(attempt)
            if self._broken is not None:
                raise self._broken
            if self._is_waiting:
                raise TypeError(f"Cannot {attempt}: this member already waits at a barrier")
            deadline.check(lambda: "no time was left")
            self._barrier += 1
            self._is_waiting = True
        barrier = self._barrier
        try:
            self._begin_await(attempt)
            before(barrier)
            self._words.arrive(barrier)
            for pause in pauses():
                if self._is_complete(barrier, attempt):
                    return
                deadline.check(lambda: missing_words(self._words, self._members))
                remaining = deadline.remaining
                yield pause if remaining is None else min(pause, remaining)
        except BaseException:
            if not self._closed and self._broken is None:
                self._give_up(barrier)
            raise
        finally:
            # WHY first: if it was closed, the others learn which barrier this member leaves.
            self._end_await()
            self._is_waiting = False

    def _is_complete(self, barrier: int, attempt: str) -> bool:
        self._check_open(attempt)
        first_gone = self._watches.first_gone
        verdict = judge_barrier(self._words, barrier, self._members, first_gone, attempt)
        if isinstance(verdict, Broken):
            if verdict.end is not None:
                self._words.end(barrier, *verdict.end)
            self._broken = verdict.failure
            raise verdict.failure
        if not verdict and not self._is_formed and self._host is not None:
            self._check_hang_ups(self._host)
        return verdict

    def _check_hang_ups(self, host: GroupHost) -> None:
        """A member that hangs up before the first barrier gave up, or its death is known soon."""
        for rank, at in host.hung_up().items():
            if time.monotonic() - at > _DEATH_S and self._words.arrived(rank) <= 0:
                raise CudaIpcError(
                    "BARRIER_BROKEN",
                    f"Cannot form {self._label}: {self._member(rank)} gave up before the first "
                    "barrier",
                )

    def _give_up(self, barrier: int) -> None:
        """Tells the others that this member misses this barrier and all later ones."""
        self._words.end(barrier, GAVE_UP, self.rank)
        self._broken = CudaIpcError(
            "BARRIER_BROKEN",
            f"Cannot meet at a barrier of {self._label}: this process (rank {self.rank}) gave up "
            "an earlier wait",
        )

    def _values(self, attempt: str) -> list[Any]:
        self._begin_await(attempt)
        try:
            return self._given_values(attempt)
        finally:
            self._end_await()

    def _given_values(self, attempt: str) -> list[Any]:
        values = []
        for rank in range(self.size):
            self._check_open(attempt)
            raw = self._words.given(rank, self._barrier)
            found = "gave no value at this barrier"
            if raw is not None:
                try:
                    values.append(parse_json(raw))
                    continue
                except ValueError:
                    found = "gave a value that is not JSON"
            self._give_up(self._barrier + 1)
            raise CudaIpcError("BARRIER_BROKEN", f"Cannot {attempt}: {self._member(rank)} {found}")
        return values

    def _member(self, rank: int) -> str:
        return f"rank {rank} (process {self._members[rank].pid})"

    def _check_open(self, attempt: str) -> None:
        if self._closed:
            raise CudaIpcError("CLOSED", f"Cannot {attempt}: the group was closed")
        if os.getpid() != self._pid:
            raise CudaIpcError("CLOSED", f"Cannot {attempt}: this process was forked after join()")


def _encode(attempt: str, value: Any) -> bytes:
    raw = encode_json(value)
    if len(raw) > LIMIT_GATHER_BYTES:
        raise CudaIpcError(
            "MESSAGE_TOO_LARGE",
            f"Cannot {attempt}: the value has {len(raw)} bytes of JSON, the limit (gatherBytesMax) "
            f"is {LIMIT_GATHER_BYTES}",
        )
    return raw
