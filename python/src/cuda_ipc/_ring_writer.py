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
from ._layout import INTEGER_MAX
from ._ring_words import (
    ASLEEP,
    DROPPED,
    EPOCH,
    EXPELLED,
    H_EPOCH,
    H_FLAGS,
    H_PASSED_OVER,
    H_READY_AT,
    H_SEQUENCE,
    H_SHAPE,
    HEADER,
    HEADERS,
    LIMIT,
    LINE,
    P_ASLEEP,
    P_CLAIMS,
    P_DONE,
    P_GPU_RELEASED,
    P_LEASE,
    P_MODE,
    P_RELEASED,
    P_STATE,
    PUBLISHED,
    READY,
    SEQUENCE,
    STATE,
)
from ._words import Words
from .errors import CudaIpcError


class _Seat:
    """A place for a reader, and what was seen there last."""

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
            _Seat(page, bell, longs[EXPELLED + place])
            for place, (page, bell) in enumerate(zip(pages, bells, strict=True))
        ]
        self._any_claim = False
        self._any_gpu = False
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
        self._any_claim = self._any_gpu = False
        for place, seat in enumerate(self._seats):
            if not (self._read(seat) or self._read(seat)):
                # It made no sense twice.
                seat.attached = False
                seat.expelled = seat.lease
                self._control.store(EXPELLED + place, seat.lease)
                seat.bell.ring()
            if not seat.attached:
                continue
            if seat.gpu_released > 0:
                self._any_gpu = True
            if seat.waited_for:
                bound = min(bound, seat.released + self.slots)
            elif seat.has_claim:
                self._any_claim = True
        return bound

    def _read(self, seat: _Seat) -> bool:
        """False if the words make no sense."""
        longs, ints = seat.page.longs, seat.page.ints
        state = ints[P_STATE]
        seat.attached = False
        if state in (p.READER_NONE, p.READER_LEFT):
            return True
        lease = longs[P_LEASE]
        if lease in (0, seat.expelled):
            return True
        if lease != seat.lease:
            seat.lease, seat.released, seat.gpu_released = lease, 0, 0
        released = longs[P_RELEASED]
        # SYNC: after `released`. A reader stores this one first.
        gpu_released = longs[P_GPU_RELEASED]
        if state != p.READER_ATTACHED or not seat.released <= released <= self.position:
            return False
        if not 0 <= gpu_released <= self.position:
            return False
        seat.waited_for = not self._all_lossy and ints[P_MODE] == p.MODE_WAITED_FOR
        seat.released, seat.gpu_released = released, gpu_released
        seat.has_claim = False
        if not seat.waited_for:
            for claim in range(P_CLAIMS, P_CLAIMS + p.CLAIMS):
                held = longs[claim]
                if abs(held) > self.position:
                    return False
                if held != 0:
                    seat.has_claim = True
        seat.attached = True
        return True

    def _is_held(self, slot: int) -> bool:
        """A lossy reader holds a message in this slot."""
        if not self._any_claim:
            return False
        for seat in self._seats:
            if not (seat.attached and not seat.waited_for and seat.has_claim):
                continue
            longs = seat.page.longs
            if seat.page.ints[P_STATE] != p.READER_ATTACHED:
                continue
            for claim in range(P_CLAIMS, P_CLAIMS + p.CLAIMS):
                held = longs[claim]
                if held == 0 or (abs(held) - 1) % self.slots != slot:
                    continue
                if held > 0 or longs[P_DONE] < -held:
                    return True
        return False

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
        for n in range(self.slots + 1):
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

    def streams_are_done(self) -> bool:
        """No stream of a reader still reads the slot that was reserved."""
        if not self._any_gpu:
            return True
        before = self.position - self.slots + 1
        return all(
            seat.page.longs[P_DONE] >= min(seat.gpu_released, before)
            for seat in self._seats
            if seat.attached and seat.waited_for
        )

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

    def commit(self, byte_length: int, flags: int, meta: bytes, shape: Sequence[int] | None) -> int:
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
            0,
            self._epoch,
            flags,
            len(meta),
            rank,
        )
        # WHY in this order: the next writer tells from these words where this one died.
        control.store(at, self.position + 1)
        self.sequence = sequence + 1
        control.plain[SEQUENCE] = self.sequence
        self._advance()
        self.wake_readers()
        return sequence

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

    def live_places(self) -> list[int]:
        """The places of the readers that are attached now."""
        self._look()
        return [place for place, seat in enumerate(self._seats) if seat.attached]

    def behind(self, place: int) -> int:
        """How many positions a reader that is waited for is behind."""
        return self.position - self._seats[place].released

    def leave(self, state: int) -> None:
        """Stores the last state. The writer has no streams of its own, so `ready` ends first."""
        line = READY + LINE * (self._epoch % p.READY_LINES)
        from .timelines import end_timeline

        if state == p.WRITER_AWAITED:
            end_timeline(self._control, line)
            self._control.store32(STATE, state)
        else:
            self._control.store32(STATE, state)
            end_timeline(self._control, line)
        self.wake_readers()


def take_over(name: str, control: Words, facts: ChannelFacts, first: int) -> None:
    """Turns the words into those of the next writer, wherever the last one stopped.

    Raises IN_USE if there is a writer, CHANNEL_CORRUPT if the words make no sense.
    """
    longs, ints, slots = control.longs, control.ints, facts.slots
    stride = facts.header_stride // 8
    state = ints[STATE]
    if state != p.WRITER_AWAITED:
        raise CudaIpcError(
            "IN_USE", f'Cannot write to channel "{name}": no writer is awaited (state {state})'
        )
    published, sequence, limit = longs[PUBLISHED], longs[SEQUENCE], longs[LIMIT]
    if published >= first:
        at = HEADERS + published % slots * stride
        if longs[at] == published + 1:  # it died right after its commit
            sequence, published = longs[at + H_SEQUENCE] + 1, published + 1
        elif longs[at + H_PASSED_OVER] == published + 1:
            published += 1
    sound = first <= published <= limit <= min(published + slots, INTEGER_MAX)
    if not sound or not 0 <= sequence <= published - first:
        raise CudaIpcError(
            "CHANNEL_CORRUPT",
            f'Cannot write to channel "{name}": its words say {published} positions published, '
            f"limit {limit}, message {sequence} next",
        )
    epoch = ints[EPOCH]
    line = READY + LINE * (epoch % p.READY_LINES)
    reached = longs[line]
    if reached == p.POISON:
        reached = longs[line + 1]
    for slot in range(slots):
        at = HEADERS + slot * stride
        if not 0 < longs[at] <= published:
            continue
        if ints[2 * at + H_EPOCH] == epoch and longs[at + H_READY_AT] > reached:
            # Its data will never be there.
            control.store32(2 * at + H_FLAGS, ints[2 * at + H_FLAGS] | p.FLAG_LOST)
    # WHY in this order: if this writer dies here, too, the next finds the sequence in a header.
    control.store(SEQUENCE, sequence)
    control.store(PUBLISHED, published)
    epoch = (epoch + 1) % 2**32
    control.store32(EPOCH, epoch)
    control.store(READY + LINE * (epoch % p.READY_LINES), published)
    control.store32(ASLEEP, (ints[ASLEEP] + 1) & ~1)
