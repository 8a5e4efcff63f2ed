"""A message that was taken from a ring."""

from __future__ import annotations

from collections.abc import Callable


class Taken:
    """A message that is held, with a copy of its header."""

    __slots__ = (
        "byte_length",
        "came",
        "claim",
        "epoch",
        "flags",
        "meta",
        "missed",
        "own_shape",
        "position",
        "ready_at",
        "returned",
        "sequence",
        "signal",
        "timestamp_ms",
    )

    position: int
    claim: int
    #: Whether its data came or its writer died before; None if nobody has seen either yet.
    came: bool | None
    #: It was given back.
    returned: bool
    #: How its stream gives it back, with the value that `done` reaches; None if the CPU does.
    signal: Callable[[int], object] | None
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
