"""How the writer of a channel waits for a free slot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from ._deadline import Deadline
from ._ring_writer import RingWriter
from ._waiting import gpu_pauses


def until_room(
    ring: RingWriter, deadline: Deadline, inspect: Callable[[], Mapping[int, str]]
) -> Iterator[float | None]:
    """Says how to wait: a pause in seconds, or None for the bell. `inspect` names the readers."""
    times = gpu_pauses()
    while True:
        deadline.check(lambda: why_full(ring, inspect))
        # Readers ring when they give a slot back. Streams cannot, so it looks again.
        if ring.reserve() or ring.is_held_by_streams:
            remaining = deadline.remaining
            pause = next(times)
            yield pause if remaining is None else min(pause, remaining)
            continue
        times = gpu_pauses()
        ring.fall_asleep()
        # SYNC: looks again after the store. A reader gives back before it looks.
        yield 0.0 if ring.reserve() else None


class AskLater(Exception):
    """The hub is to be asked who reads, without waiting for it here."""


def ask_later() -> Mapping[int, str]:
    raise AskLater


def why_full(ring: RingWriter, inspect: Callable[[], Mapping[int, str]]) -> str:
    if ring.reserve():
        return "streams that use the next slot have not finished with it"
    seats = ring.live_seats()
    if not seats:
        return "no reader is left, and the hub has not freed their seats yet"
    late = [seat for seat in seats if ring.is_waited_for(seat) and ring.behind(seat) >= ring.slots]
    slowest = max(late or seats, key=ring.behind)
    who = inspect().get(slowest)
    named = f"reader {slowest}" + (f" ({who})" if who else "")
    is_own = who is not None and who.startswith(f"process {os.getpid()},")
    own = "; this process itself has not released them" if is_own else ""
    return f"{named} {_lateness(ring, slowest) if late else 'holds slots'}{own}"


def _lateness(ring: RingWriter, seat: int) -> str:
    behind = ring.behind(seat)
    return f"is {behind} {'message' if behind == 1 else 'messages'} behind"
