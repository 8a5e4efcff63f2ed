"""A reader's side of a ring: takes messages and gives slots back. It never waits.

docs/protocol.md ("The ring of a channel") has the algorithm and why it needs no lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ._layout import INTEGER_MAX
from ._protocol import (
    CLAIMS,
    FLAG_LOST,
    FLAG_SHAPED,
    HEADER_META,
    HEADER_SEQUENCE,
    LIMIT_CHANNEL_LOOKS,
    RANK_MAX,
)
from ._ring_message import Hold, Taken, held_here
from ._ring_seat import ReaderSeat
from ._ring_words import (
    H_PASSED_OVER,
    H_SHAPE,
    HEADER,
    HEADERS,
    P_CLAIMS,
    P_DONE,
    P_GPU_RELEASED,
    P_MISSED,
    P_RECEIVED,
    P_RELEASED,
    SEQUENCE,
)
from .errors import CudaIpcError


class RingReader(ReaderSeat):
    """A reader that takes messages and gives their slots back."""

    def try_take(self) -> Taken | None:
        """The next message, held until `release`. None if it is not there yet, or `is_outrun`."""
        start, received = self._next, self.received
        longs = self._control.longs
        try:
            # WHY counted where it looks again: a message at the first look costs nothing more.
            looks = 0
            while True:
                position = self._next
                at = self._at
                generation = longs[at]
                if generation <= position and longs[at + H_PASSED_OVER] <= position:
                    self.check_expelled()
                    self.is_outrun = False
                    return None
                claim = -1
                if self.lossy:
                    free = self._free_claim()
                    if free < 0 and self.is_held_up:
                        return None
                    claim = self._claim(position, free)
                    if claim < 0:
                        looks += 1
                        if looks < LIMIT_CHANNEL_LOOKS:
                            continue
                        break
                elif generation <= position:
                    # It was passed over, or the message came between the two looks.
                    generation = longs[at]
                if self.lossy:
                    generation = longs[at]
                if generation == position + 1:
                    taken = self._take(position, at, claim)
                    if taken is not None:
                        return taken
                else:
                    self._check_passed_over(position, generation, longs[at + H_PASSED_OVER])
                    self._pass_over(claim)
                looks += 1
                if looks >= LIMIT_CHANNEL_LOOKS:
                    break
            self.check_expelled()
            self.is_outrun = True
            return None
        except BaseException:
            self._undo(start, received)
            raise

    def _undo(self, start: int, received: int) -> None:
        """After an error, or a signal between any two steps: nothing was taken since `start`."""
        held, page = self._held, self._page
        if held and held[-1].position >= start:
            last = held.pop()
            last.returned = True
            self._next, self._sequence, self._gap = last.position, last.sequence, last.missed
        self.received = received
        self._at = self._header(self._next)
        if self.lossy:
            for claim in range(P_CLAIMS, P_CLAIMS + CLAIMS):
                if page.longs[claim] > self._next:
                    page.store(claim, 0)

    def _claim(self, position: int, claim: int) -> int:
        """Claims the position. If the writer was faster, goes on from where it is; then -1."""
        page = self._page
        if claim < 0:
            raise CudaIpcError(
                "LIMIT_EXCEEDED",
                f'Cannot take a message of channel "{self.name}": '
                f"{held_here(CLAIMS, 'message', 'messages')}, the most of a lossy reader",
            )
        page.store(P_CLAIMS + claim, position + 1)
        oldest = self._oldest()
        if position >= oldest:
            return claim
        page.store(P_CLAIMS + claim, 0)
        # The writer may have seen the claim and gone to sleep for want of room.
        self._wake_writer()
        self._next = oldest
        self._at = self._header(oldest)
        return -1

    def _free_claim(self) -> int:
        """The index of a claim that is free; -1 if none is."""
        longs = self._page.longs
        for claim in range(CLAIMS):
            held = longs[P_CLAIMS + claim]
            if held == 0 or (held < 0 and longs[P_DONE] >= -held):
                return claim
        return -1

    @property
    def is_full(self) -> bool:
        """A lossy reader holds as many messages as it may."""
        return self.lossy and self._free_claim() < 0

    @property
    def is_held_up(self) -> bool:
        """Streams hold as many slots as a lossy reader may hold. They will give them back."""
        return len(self._held) < CLAIMS and self.is_full

    @property
    def held_up_by_program(self) -> int:
        """Messages that the program holds, if none can come before it releases one; otherwise 0."""
        held = self._held
        if len(held) == 0:
            return 0
        count = sum(not hold.returned for hold in held)
        taken = count if self.lossy else self._next - held[0].position
        return count if taken >= self._slots else 0

    def _take(self, position: int, at: int, claim: int) -> Taken | None:
        facts = self._facts
        byte = at * 8
        taken = self._make()
        (
            sequence,
            taken.timestamp_ms,
            length,
            ready_at,
            taken.epoch,
            flags,
            meta_bytes,
            rank,
        ) = HEADER.unpack_from(self._control.bytes, byte + HEADER_SEQUENCE)
        expected = sequence if self._sequence is None else self._sequence
        if not (
            0 <= length <= facts.slot_bytes
            and meta_bytes <= facts.meta_bytes_max
            and flags < 8
            and 0 <= ready_at <= position + 1
            and 0 <= expected <= sequence <= INTEGER_MAX
        ):
            self._refuse(
                f"message {sequence}, wanted {expected}: {length} bytes, {meta_bytes} of meta, "
                f"flags {flags}, ready at {ready_at}"
            )
        if flags & FLAG_SHAPED or length != facts.slot_bytes:
            taken.own_shape = self._shape(at, length, rank if flags & FLAG_SHAPED else None)
        else:
            taken.own_shape = None
        gap = sequence - expected
        if gap:
            self.missed += gap
            self._gap += gap
            self._sequence = sequence
        if flags & FLAG_LOST:
            self._sequence = sequence + 1
            self._gap += 1
            self.missed += 1
            self._pass_over(claim)
            return None
        meta = byte + HEADER_META
        taken.meta = bytes(self._control.bytes[meta : meta + meta_bytes]) if meta_bytes else b""
        hold = Hold()
        hold.position = position
        hold.claim = claim
        hold.returned = hold.is_lent = False
        hold.signal = None
        hold.sequence = sequence
        hold.missed = self._gap
        taken.hold = hold
        taken.came = True if ready_at == 0 else None
        taken.sequence = sequence
        taken.byte_length = length
        taken.ready_at = ready_at
        taken.flags = flags
        taken.missed = self._gap
        self._held.append(hold)
        self._gap = 0
        self._sequence = sequence + 1
        self.received += 1
        self._go_on()
        return taken

    def _shape(self, at: int, length: int, rank: int | None) -> tuple[int, ...]:
        item = self._facts.dtype.itemsize
        if rank is None:
            if length % item != 0:
                self._refuse(f"a message of {length} bytes of {self._facts.dtype.name}")
            return (length // item,)
        plain = self._control.plain
        shape = tuple(plain[at + H_SHAPE + axis] for axis in range(min(rank, RANK_MAX)))
        sound = rank <= RANK_MAX and all(n >= 0 for n in shape)
        if not sound or math.prod(shape) * item != length:
            self._refuse(f"a message of {length} bytes claims {rank} axes, {shape}")
        return shape

    def _go_on(self) -> None:
        self._next += 1
        self._at += self._stride
        if self._at == self._end:
            self._at = HEADERS

    def _pass_over(self, claim: int) -> None:
        if claim >= 0:
            self._page.store(P_CLAIMS + claim, 0)
        self._go_on()
        self._give_back()

    def release(self, taken: Taken, signal: Callable[[int], object] | None = None) -> None:
        """Gives the slot back: at once, or by `signal` when a stream gets there.

        Streams give slots back in the order of positions. Raises what `signal` raises; the slot
        and those after it are then given back by `retry`. The second time it does nothing.
        """
        hold = taken.hold
        if hold.returned:
            return
        hold.returned = True
        if signal is not None:
            hold.signal = signal
        elif hold.claim >= 0:
            self._page.store(P_CLAIMS + hold.claim, 0)
        self.retry()

    def retry(self) -> None:
        """Gives back what was released, up to the first message that is held."""
        held = self._held
        while held and held[0].returned:
            first = held[0]
            if first.signal is not None:
                self._give_back_by_stream(first, first.signal)
            held.popleft()
        self._give_back()

    def _give_back_by_stream(self, taken: Hold, signal: Callable[[int], object]) -> None:
        value = taken.position + 1
        signal(value)
        if taken.claim >= 0:
            self._page.store(P_CLAIMS + taken.claim, -value)
        else:
            # SYNC: before `released`. The writer loads this one after that.
            self._page.store(P_GPU_RELEASED, value)

    @property
    def is_refused(self) -> bool:
        """A stream has not given a slot back, because its device failed."""
        return len(self._held) > 0 and self._held[0].returned

    def count_rest(self) -> None:
        """Counts what was overwritten after the last message.

        Call it when the channel has ended and `has_next` is false: no later message will count it.
        """
        sequence = self._control.longs[SEQUENCE]
        # It can be one less: a writer that died had not counted its last message yet.
        if self._sequence is None or sequence <= self._sequence:
            return
        lost = sequence - self._sequence
        self.missed += lost
        self._gap += lost
        self._sequence = sequence
        self._page.plain[P_MISSED] = self.missed

    def lose(self, taken: Taken) -> None:
        """Counts a message as missed: its writer died before its data were there."""
        self.received -= 1
        self.missed += 1
        self._gap += taken.missed + 1
        self.release(taken)

    def count_lost(self, taken: Taken) -> None:
        """Counts a message as missed that was handed out before its data were there."""
        self.received -= 1
        self.missed += 1
        self._gap += 1

    def _give_back(self) -> None:
        page = self._page
        plain = page.plain
        plain[P_RECEIVED] = self.received
        plain[P_MISSED] = self.missed
        page.store(P_RELEASED, self._held[0].position if self._held else self._next)
        self._wake_writer()
