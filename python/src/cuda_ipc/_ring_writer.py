"""The writer's side of a ring: finds a free slot and commits its message. It never waits.

docs/protocol.md ("The writer", "Taking over") has the algorithm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from . import _protocol as p
from ._descriptors import ChannelFacts
from ._fds import Bell
from ._ring_seats import Seat
from ._ring_words import (
    ASLEEP,
    DROPPED,
    EPOCH,
    EXPELLED,
    H_PASSED_OVER,
    H_SHAPE,
    HEADER,
    HEADERS,
    LIMIT,
    LINE,
    P_ASLEEP,
    P_CLAIMS,
    P_DONE,
    PUBLISHED,
    READY,
    SEQUENCE,
    STATE,
)
from ._words import Words
from .errors import CudaIpcError


class RingWriter:
    def __init__(
        self,
        name: str,
        control: Words,
        facts: ChannelFacts,
        first_position: int,
        pages: Sequence[Words],
        bells: Sequence[Bell],
    ) -> None:
        """Goes on where the words say that the writer before was."""
        self.name = name
        self.slots = facts.slots
        self._control = control
        self._facts = facts
        self._first = first_position
        self._stride = facts.header_stride // 8
        self._all_lossy = facts.when_full == "drop-oldest"
        self._window = max(1, facts.slots // 4)
        longs = control.longs
        self._seats = [
            Seat(page, bell, longs[EXPELLED + number])
            for number, (page, bell) in enumerate(zip(pages, bells, strict=True))
        ]
        self._any_claim = False
        self.any_gpu = False
        #: The next position, and the sequence of its message.
        self.position = longs[PUBLISHED]
        self.sequence = longs[SEQUENCE]
        self._limit = longs[LIMIT]
        # WHY not the limit: readers may have come since the last writer looked.
        self._may_write = self.position
        self._is_reserved = False
        self._epoch = control.ints[EPOCH]
        control.store32(ASLEEP, (control.ints[ASLEEP] + 1) & ~1)

    @property
    def slot(self) -> int:
        return self.position % self.slots

    # ------------------------------------------------ looking at readers

    def _look(self) -> float:
        """Looks at all readers. Returns the position up to which it may write."""
        bound = math.inf
        self._any_claim = self.any_gpu = False
        lossy = self._all_lossy
        for number, seat in enumerate(self._seats):
            read = seat.read
            if not (read(self.position, lossy) or read(self.position, lossy)):
                # It made no sense twice.
                seat.attached = False
                seat.expelled = seat.lease
                self._control.store(EXPELLED + number, seat.lease)
                seat.bell.ring()
            if not seat.attached:
                continue
            if seat.gpu_released > 0:
                self.any_gpu = True
            if seat.waited_for:
                bound = min(bound, seat.released + self.slots)
            elif seat.has_claim:
                self._any_claim = True
        return bound

    def _is_held(self, slot: int) -> bool:
        """A lossy reader holds a message in this slot."""
        return self._any_claim and any(seat.claims(slot, self.slots) for seat in self._seats)

    # ------------------------------------------------ slots and messages

    def reserve(self) -> bool:
        """True if `slot` is free. Streams of readers may still use it: see `streams_are_done`."""
        if self.position < self._may_write and (self._is_reserved or not self._any_claim):
            return True
        before = self.position
        self._is_reserved = self._find_free()
        if not self._is_reserved and self.position != before:
            # Readers may have to go past what was passed over.
            self.wake_readers()
        return self._is_reserved

    def _find_free(self) -> bool:
        # As many slots as can be held, and some more: readers may claim others meanwhile.
        most = p.CLAIMS * len(self._seats) + p.LIMIT_CHANNEL_LOOKS
        for n in range(min(self.slots, most) + 1):
            if self.position >= self._may_write and not self._extend():
                return False
            if not self._is_held(self.slot):
                return True
            # Each slot that is passed over costs other readers a message.
            if n == 0 and not self._is_any_free():
                return False
            if not self._is_held(self.slot):
                return True
            self._go_past()
        return False

    def _extend(self) -> bool:
        if self.position > p.POSITIONS_MAX:
            raise CudaIpcError(
                "LIMIT_EXCEEDED",
                f'Cannot write to channel "{self.name}": {p.POSITIONS_MAX} positions are written',
            )
        target = min(self.position + self._window, self._look())
        if target <= self.position:
            return False
        if target > self._limit:
            self._limit = int(target)
            self._control.store(LIMIT, self._limit)
        # SYNC: the second look. A reader that came meanwhile relies on the old limit.
        self._may_write = int(min(target, self._look()))
        return self._may_write > self.position

    def _is_any_free(self) -> bool:
        self._look()
        return any(not self._is_held(slot) for slot in range(self.slots))

    def pending_releases(self) -> list[tuple[int, int]]:
        """Readers whose streams still read the slot that was reserved: seats, and values of `done`
        that end it."""
        if not self.any_gpu:
            return []
        before = self.position - self.slots + 1
        return [
            (number, wanted)
            for number, seat in enumerate(self._seats)
            if seat.attached and seat.waited_for
            for wanted in (min(seat.gpu_released, before),)
            if seat.page.longs[P_DONE] < wanted
        ]

    @property
    def is_held_by_streams(self) -> bool:
        """After a failed `reserve`: a stream will free a slot, and rings no bell."""
        for seat in self._seats:
            if seat.attached and not seat.waited_for and seat.has_claim:
                longs = seat.page.longs
                for claim in range(P_CLAIMS, P_CLAIMS + p.CLAIMS):
                    if longs[claim] < 0 and longs[P_DONE] < -longs[claim]:
                        return True
        return False

    def commit(
        self,
        byte_length: int,
        flags: int,
        meta: bytes,
        shape: Sequence[int] | None,
        ready_at: int = 0,
    ) -> int:
        """Sends the message in `slot`. Returns its sequence."""
        control = self._control
        at = HEADERS + self.slot * self._stride
        rank = 0
        if shape is not None:
            rank = len(shape)
            flags |= p.FLAG_SHAPED
            for axis, length in enumerate(shape):
                control.plain[at + H_SHAPE + axis] = length
        if meta:
            start = at * 8 + p.HEADER_META
            control.bytes[start : start + len(meta)] = meta
        sequence = self.sequence
        HEADER.pack_into(
            control.bytes,
            at * 8 + p.HEADER_SEQUENCE,
            sequence,
            time.time() * 1000,
            byte_length,
            ready_at,
            self._epoch,
            flags,
            len(meta),
            rank,
        )
        position = self.position
        try:
            self._show(at, position, sequence)
        except BaseException:
            # A signal may have ended it after a reader saw the message. Twice is harmless.
            self._show(at, position, sequence)
            raise
        return sequence

    def _show(self, at: int, position: int, sequence: int) -> None:
        control = self._control
        # WHY in this order: the next writer tells from these words where this one died.
        control.store(at, position + 1)
        self.sequence = control.plain[SEQUENCE] = sequence + 1
        self._is_reserved = False
        self.position = position + 1
        control.store(PUBLISHED, position + 1)
        self.wake_readers()

    def pass_over(self) -> None:
        """Skips this position without a message. A stream may still write to its slot."""
        self._go_past()
        self.wake_readers()

    def _go_past(self) -> None:
        at = HEADERS + self.slot * self._stride
        self._control.store(at + H_PASSED_OVER, self.position + 1)
        self._advance()

    def _advance(self) -> None:
        self._is_reserved = False
        self.position += 1
        self._control.store(PUBLISHED, self.position)

    def drop(self) -> None:
        """Counts a message that found no room."""
        self._control.store(DROPPED, self._control.longs[DROPPED] + 1)

    # ------------------------------------------------ waking and sleeping

    def wake_readers(self) -> None:
        for seat in self._seats:
            asleep = seat.page.ints[P_ASLEEP]
            if asleep & 1 and asleep != seat.rung:
                seat.rung = asleep
                seat.bell.ring()

    def fall_asleep(self) -> None:
        self._control.store32(ASLEEP, self._control.ints[ASLEEP] | 1)

    def wake_up(self) -> None:
        asleep = self._control.ints[ASLEEP]
        if asleep & 1:
            self._control.store32(ASLEEP, asleep + 1)

    def live_seats(self) -> list[int]:
        """The seat numbers of the readers that are attached now."""
        self._look()
        return [number for number, seat in enumerate(self._seats) if seat.attached]

    def is_waited_for(self, number: int) -> bool:
        return self._seats[number].waited_for

    def behind(self, number: int) -> int:
        """How many positions a reader that is waited for is behind."""
        return self.position - self._seats[number].released

    @property
    def ready_line(self) -> int:
        """The index of the value of this writer's `ready` timeline."""
        return READY + LINE * (self._epoch % p.READY_LINES)

    def leave(self, state: int) -> None:
        """Stores the last state. Call it once the writer's streams have signalled."""
        from .timelines import end_timeline

        end_timeline(self._control, self.ready_line)
        self._control.store32(STATE, state)
        self.wake_readers()
