"""The seats for readers, as the writer of a ring sees them."""

from __future__ import annotations

from . import _protocol as p
from ._fds import Bell
from ._ring_words import (
    P_CLAIMS,
    P_DONE,
    P_GPU_RELEASED,
    P_LEASE,
    P_MODE,
    P_RELEASED,
    P_STATE,
)
from ._words import Words


class Seat:
    """The seat of a reader, and what was seen there last."""

    __slots__ = (
        "attached",
        "bell",
        "expelled",
        "gpu_released",
        "has_claim",
        "lease",
        "page",
        "released",
        "rung",
        "waited_for",
    )

    def __init__(self, page: Words, bell: Bell, expelled: int) -> None:
        self.page = page
        self.bell = bell
        self.expelled = expelled
        self.attached = self.waited_for = self.has_claim = False
        self.lease = self.released = self.gpu_released = self.rung = 0

    def read(self, position: int, all_lossy: bool) -> bool:
        """Looks at the page again. False if its words make no sense."""
        longs, ints = self.page.longs, self.page.ints
        state = ints[P_STATE]
        self.attached = False
        if state in (p.READER_NONE, p.READER_LEFT):
            return True
        lease = longs[P_LEASE]
        if lease in (0, self.expelled):
            return True
        if lease != self.lease:
            self.lease, self.released, self.gpu_released = lease, 0, 0
        released = longs[P_RELEASED]
        # SYNC: after `released`. A reader stores this one first.
        gpu_released = longs[P_GPU_RELEASED]
        if state != p.READER_ATTACHED or not self.released <= released <= position:
            return False
        if not 0 <= gpu_released <= position:
            return False
        self.waited_for = not all_lossy and ints[P_MODE] == p.MODE_WAITED_FOR
        self.released, self.gpu_released = released, gpu_released
        self.has_claim = False
        if not self.waited_for:
            for claim in range(P_CLAIMS, P_CLAIMS + p.CLAIMS):
                held = longs[claim]
                if abs(held) > position:
                    return False
                if held != 0:
                    self.has_claim = True
        self.attached = True
        return True

    def claims(self, slot: int, slots: int) -> bool:
        """Whether a lossy reader holds a message in this slot."""
        if not (self.attached and not self.waited_for and self.has_claim):
            return False
        longs = self.page.longs
        if self.page.ints[P_STATE] != p.READER_ATTACHED:
            return False
        for claim in range(P_CLAIMS, P_CLAIMS + p.CLAIMS):
            held = longs[claim]
            if held == 0 or (abs(held) - 1) % slots != slot:
                continue
            if held > 0 or longs[P_DONE] < -held:
                return True
        return False
