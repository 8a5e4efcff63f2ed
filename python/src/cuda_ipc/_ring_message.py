"""A message that was taken from a ring."""

from __future__ import annotations

import os
from collections.abc import Callable


def held_here(count: int, what: str, plural: str) -> str:
    """`this process itself (process 77) holds 2 replies that are not released`"""
    held = f"1 {what} that is" if count == 1 else f"{count} {plural} that are"
    return f"this process itself (process {os.getpid()}) holds {held} not released"


class Hold:
    """What a ring keeps of a message until its slot is given back.

    WHY not the message itself: the program may drop that, and then gives the slot back.
    """

    __slots__ = (
        "claim",
        "is_lent",
        "is_open",
        "missed",
        "position",
        "returned",
        "sequence",
        "signal",
    )

    position: int
    claim: int
    #: It was given back.
    returned: bool
    #: Of a message without data, which is given back at once: the program has not released it.
    is_open: bool
    #: The program may still use a view of the slot, also without the message.
    is_lent: bool
    #: How its stream gives it back, with the value that `done` reaches; None if the CPU does.
    signal: Callable[[int], object] | None
    sequence: int
    missed: int


class Taken:
    """A message that is held, with a copy of its header."""

    __slots__ = (
        "byte_length",
        "came",
        "epoch",
        "flags",
        "hold",
        "meta",
        "missed",
        "own_shape",
        "ready_at",
        "sequence",
        "timestamp_ms",
    )

    hold: Hold
    #: Whether its data came or its writer died before; None if nobody has seen either yet.
    came: bool | None
    sequence: int
    timestamp_ms: float
    byte_length: int
    ready_at: int
    epoch: int
    flags: int
    #: Messages that this reader lost between the one before and this one.
    missed: int
    meta: bytes
    #: The shape that the header has; None if it has none.
    own_shape: tuple[int, ...] | None

    @property
    def position(self) -> int:
        return self.hold.position

    @property
    def returned(self) -> bool:
        """It was given back."""
        return self.hold.returned
