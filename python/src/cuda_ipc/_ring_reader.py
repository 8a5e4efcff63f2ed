"""A reader's side of a ring: takes messages and gives slots back. It never waits.

docs/protocol.md ("The ring of a channel") has the algorithm and why it needs no lock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from ._descriptors import ChannelFacts
from ._fds import Bell
from ._layout import INTEGER_MAX
from ._protocol import (
    CLAIMS,
    FLAG_LOST,
    FLAG_SHAPED,
    HEADER_META,
    HEADER_SEQUENCE,
    MODE_LOSSY,
    MODE_WAITED_FOR,
    POISON,
    RANK_MAX,
    READER_ATTACHED,
    READER_LEFT,
    READY_LINES,
)
from ._ring_words import (
    ASLEEP,
    EXPELLED,
    H_PASSED_OVER,
    H_SEQUENCE,
    H_SHAPE,
    HEADER,
    HEADERS,
    LIMIT,
    LINE,
    P_ASLEEP,
    P_CLAIMS,
    P_DONE,
    P_MISSED,
    P_MODE,
    P_RECEIVED,
    P_RELEASED,
    P_STATE,
    PUBLISHED,
    READY,
    STATE,
)
from ._words import Words
from .errors import CudaIpcError


class Taken:
    """A message that is held, with a copy of its header."""

    __slots__ = (
        "byte_length",
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
        "timestamp_ms",
    )

    position: int
    claim: int
    #: It was given back.
    returned: bool
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


class RingReader:
    def __init__(
        self,
        name: str,
        control: Words,
        page: Words,
        facts: ChannelFacts,
        first_position: int,
        place: int,
        lease: int,
        start: str,
        lossy: bool,
        room: Bell,
        make: Callable[[], Taken] = Taken,
    ) -> None:
        self.name = name
        self.lossy = lossy or facts.when_full == "drop-oldest"
        self.received = 0
        self.missed = 0
        self._control = control
        self._page = page
        self._facts = facts
        self._first = first_position
        self._expelled = EXPELLED + place
        self._lease = lease
        self._room = room
        self._make = make
        self._slots = facts.slots
        self._stride = facts.header_stride // 8
        self._end = HEADERS + self._slots * self._stride
        self._held: deque[Taken] = deque()
        # The sequence of the next message if none is lost, where that is known.
        self._sequence: int | None = None
        self._gap = 0
        # The sleep of the writer for which its bell was rung.
        self._rung = 0
        self._next = control.longs[PUBLISHED]
        if self._next < self._first:
            self._refuse(f"{self._next} positions are published, the first was {self._first}")
        self._next = self._attach(start)
        self._at = self._header(self._next)

    # ------------------------------------------------ joining

    def _attach(self, start: str) -> int:
        begin = position = self._begin(start)
        page = self._page
        page.store32(P_ASLEEP, (page.ints[P_ASLEEP] + 1) & ~1)
        page.store32(P_MODE, MODE_LOSSY if self.lossy else MODE_WAITED_FOR)
        page.store(P_DONE, position)
        page.store(P_RELEASED, position)
        page.store32(P_STATE, READER_ATTACHED)
        # SYNC: the second look. The writer stores `limit` and then looks at the pages again.
        oldest = self._oldest()
        while True:
            if position < oldest:
                position = oldest
                page.store(P_DONE, position)
                page.store(P_RELEASED, position)
            if self.lossy:  # another reader loses nothing before its first message
                self._sequence = self._sequence_from(position)
            oldest = self._oldest()
            if position >= oldest:
                break
        if position != begin:
            self._wake_writer()
        if not 0 <= (self._sequence or 0) <= position - self._first:
            self._refuse(f"message {self._sequence} comes at position {position}")
        return position

    def _begin(self, start: str) -> int:
        oldest = self._oldest()
        if start == "next":
            return max(self._next, oldest)
        if start == "oldest":
            return max(self._next - self._slots, oldest)
        for position in range(self._next - 1, oldest - 1, -1):
            if self._control.longs[self._header(position)] == position + 1:
                if position >= self._oldest():
                    return position
                break
        return max(self._next, self._oldest())

    def _oldest(self) -> int:
        """The oldest position that the writer does not go over yet. Load `published` before."""
        limit = self._control.longs[LIMIT]
        if not self._next <= limit <= INTEGER_MAX:
            self._refuse(f"the limit is {limit}, {self._next} positions are published")
        return max(self._first, limit - self._slots)

    def _sequence_from(self, position: int) -> int | None:
        """The sequence of the first message from a position on; None if no header says it."""
        if position == self._first:
            return 0
        while True:
            published = self._control.longs[PUBLISHED]
            found = self._nearest(position, self._oldest(), published)
            oldest = self._oldest()
            if position < oldest:
                return None
            if found is None:
                if self._control.longs[PUBLISHED] == published:
                    return None
            elif found[0] >= oldest:
                return found[1]

    def _nearest(self, position: int, oldest: int, published: int) -> tuple[int, int] | None:
        longs = self._control.longs
        for at in range(position, min(published, position + self._slots)):
            if longs[self._header(at)] == at + 1:
                return at, longs[self._header(at) + H_SEQUENCE]
        for at in range(position - 1, oldest - 1, -1):
            if longs[self._header(at)] == at + 1:
                return at, longs[self._header(at) + H_SEQUENCE] + 1
        return None

    # ------------------------------------------------ messages

    @property
    def has_next(self) -> bool:
        """Whether the writer has come to the next position."""
        longs = self._control.longs
        at = self._at
        return longs[at] > self._next or longs[at + H_PASSED_OVER] > self._next

    def try_take(self) -> Taken | None:
        """The next message, held until `release`. None if it is not there yet."""
        longs = self._control.longs
        while True:
            position = self._next
            at = self._at
            generation = longs[at]
            if generation <= position and longs[at + H_PASSED_OVER] <= position:
                self.check_expelled()
                return None
            claim = -1
            if self.lossy:
                claim = self._claim(position)
                if claim < 0:
                    continue
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

    def _check_passed_over(self, position: int, generation: int, passed_over: int) -> None:
        if passed_over == position + 1:
            return
        # A lap later the writer goes past a slot that is claimed here.
        if self.lossy and passed_over > position and position < self._control.longs[LIMIT]:
            return
        self._refuse(
            f"generation {generation} and passed over {passed_over} at position {position}"
        )

    def _claim(self, position: int) -> int:
        """Claims the position. If the writer was faster, goes on from where it is; then -1."""
        page = self._page
        for claim in range(CLAIMS):
            if page.longs[P_CLAIMS + claim] == 0:
                break
        else:
            raise CudaIpcError(
                "LIMIT_EXCEEDED",
                f'Cannot take a message of channel "{self.name}": {CLAIMS} are held, the most of a '
                "lossy reader. Release one first.",
            )
        page.store(P_CLAIMS + claim, position + 1)
        oldest = self._oldest()
        if position >= oldest:
            return claim
        page.store(P_CLAIMS + claim, 0)
        # The writer may have seen the claim and gone to sleep for want of room.
        self._wake_writer()
        published = self._control.longs[PUBLISHED]
        if oldest > published:
            self._refuse(f"the writer is at {oldest}, {published} positions are published")
        self._next = oldest
        self._at = self._header(oldest)
        return -1

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
        self._sequence = sequence + 1
        gap = sequence - expected
        if gap:
            self.missed += gap
            self._gap += gap
        if flags & FLAG_LOST:
            self._gap += 1
            self.missed += 1
            self._pass_over(claim)
            return None
        meta = byte + HEADER_META
        taken.meta = bytes(self._control.bytes[meta : meta + meta_bytes]) if meta_bytes else b""
        taken.position = position
        taken.claim = claim
        taken.returned = False
        taken.sequence = sequence
        taken.byte_length = length
        taken.ready_at = ready_at
        taken.flags = flags
        taken.missed = self._gap
        self._gap = 0
        self._held.append(taken)
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

    def release(self, taken: Taken) -> None:
        """Gives the slot back. The second time it does nothing."""
        if taken.returned:
            return
        taken.returned = True
        if taken.claim >= 0:
            self._page.store(P_CLAIMS + taken.claim, 0)
        held = self._held
        while held and held[0].returned:
            held.popleft()
        self._give_back()

    def lose(self, taken: Taken) -> None:
        """Counts a message as missed: its writer died before its data were there."""
        self.received -= 1
        self.missed += 1
        self._gap += taken.missed + 1
        self.release(taken)

    def _give_back(self) -> None:
        page = self._page
        plain = page.plain
        plain[P_RECEIVED] = self.received
        plain[P_MISSED] = self.missed
        page.store(P_RELEASED, self._held[0].position if self._held else self._next)
        self._wake_writer()

    # ------------------------------------------------ waking and sleeping

    def _wake_writer(self) -> None:
        asleep = self._control.ints[ASLEEP]
        if asleep & 1 and asleep != self._rung:
            self._rung = asleep
            self._room.ring()

    @property
    def state(self) -> int:
        return self._control.ints[STATE]

    def fall_asleep(self) -> None:
        """From here on the writer rings. Look at `has_next` and `state` again before the sleep."""
        asleep = self._page.ints[P_ASLEEP]
        self._page.store32(P_ASLEEP, asleep | 1)

    def wake_up(self) -> None:
        asleep = self._page.ints[P_ASLEEP]
        if asleep & 1:
            self._page.store32(P_ASLEEP, asleep + 1)

    def readiness(self, taken: Taken) -> bool | None:
        """Whether its data are there; None if they never will be."""
        at = READY + LINE * (taken.epoch % READY_LINES)
        reached = self._control.longs[at]
        if reached != POISON:
            return reached >= taken.ready_at
        return True if self._control.longs[at + 1] >= taken.ready_at else None

    def check_expelled(self) -> None:
        if self._control.longs[self._expelled] == self._lease:
            raise CudaIpcError(
                "READER_EXPELLED",
                f'Cannot read channel "{self.name}": its writer found words in this reader\'s page '
                "that make no sense",
            )

    def leave(self) -> None:
        """Gives all slots and the place back."""
        for claim in range(CLAIMS):
            if self._page.longs[P_CLAIMS + claim] != 0:
                self._page.store(P_CLAIMS + claim, 0)
        for taken in self._held:
            taken.returned = True
        self._page.store32(P_STATE, READER_LEFT)
        self._wake_writer()

    def _header(self, position: int) -> int:
        return HEADERS + position % self._slots * self._stride

    def _refuse(self, found: str) -> None:
        self.check_expelled()
        raise CudaIpcError("CHANNEL_CORRUPT", f'Cannot read channel "{self.name}": {found}')
