"""A reader's seat in a ring: it joins, sleeps and wakes, and leaves.

docs/protocol.md ("Attach", "Sleep", "Leave") has the algorithm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain

from ._descriptors import ChannelFacts
from ._fds import Bell
from ._layout import INTEGER_MAX
from ._protocol import (
    CLAIMS,
    FLAG_LOST,
    LIMIT_CHANNEL_LOOKS,
    MODE_LOSSY,
    MODE_WAITED_FOR,
    POISON,
    READER_ATTACHED,
    READER_LEFT,
    READY_LINES,
    WRITER_AWAITED,
)
from ._ring_message import Hold, Taken
from ._ring_words import (
    ASLEEP,
    EXPELLED,
    H_FLAGS,
    H_PASSED_OVER,
    H_SEQUENCE,
    HEADERS,
    LIMIT,
    LINE,
    P_ASLEEP,
    P_CLAIMS,
    P_DONE,
    P_MODE,
    P_RELEASED,
    P_STATE,
    PUBLISHED,
    READY,
    STATE,
)
from ._words import Words
from .errors import CudaIpcError


class ReaderSeat:
    def __init__(
        self,
        name: str,
        control: Words,
        page: Words,
        facts: ChannelFacts,
        first_position: int,
        number: int,
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
        self._expelled = EXPELLED + number
        self._lease = lease
        self._room = room
        self._make = make
        self._slots = facts.slots
        self._stride = facts.header_stride // 8
        self._end = HEADERS + self._slots * self._stride
        self._held: deque[Hold] = deque()
        #: The last `try_take` gave up, because the writer had moved on at each look.
        self.is_outrun = False
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
        # WHY two rings: if nearly all positions were passed over, the header that tells is that far
        # away.
        self._headers_left = 2 * self._slots + LIMIT_CHANNEL_LOOKS
        # SYNC: the second look. The writer stores `limit` and then looks at the pages again.
        oldest = self._oldest()
        for _ in range(LIMIT_CHANNEL_LOOKS):
            if position < oldest:
                position = oldest
                page.store(P_DONE, position)
                page.store(P_RELEASED, position)
            if self.lossy:  # another reader loses nothing before its first message
                self._sequence = self._sequence_from(position)
            oldest = self._oldest()
            if position >= oldest:
                break
        else:
            # A lossy reader may begin behind: its first claim finds where the writer is.
            if not self.lossy:
                self._refuse(
                    f"its limit rose at each of {LIMIT_CHANNEL_LOOKS} looks, although the writer "
                    "waits for this reader"
                )
        if position != begin:
            self._wake_writer()
        # It may be ahead of the position: a bridge counts what it missed on the other machine.
        if not 0 <= (self._sequence or 0) < 2**53:
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
        oldest = max(self._first, limit - self._slots)
        # `published` after the limit, which is at most one ring's length beyond it.
        if oldest > self._next and oldest > (published := self._control.longs[PUBLISHED]):
            self._refuse(f"the limit is {limit}, {published} positions are published")
        return oldest

    def _sequence_from(self, position: int) -> int | None:
        """The sequence of the first message from a position on.

        None if no header says it, or if the writer was faster until none is left to look at.
        """
        if position == self._first:
            return 0
        while self._headers_left > 0:
            self._headers_left -= 1
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
        return None

    def _nearest(self, position: int, oldest: int, published: int) -> tuple[int, int] | None:
        longs = self._control.longs
        ahead = range(position, min(published, position + self._slots))
        # WHY not from `oldest` alone: a writer that lowers its limit would make this take for ever.
        behind = range(position - 1, max(oldest, position - self._slots) - 1, -1)
        for at in chain(ahead, behind):
            if self._headers_left <= 0:
                break
            self._headers_left -= 1
            if longs[self._header(at)] == at + 1:
                return at, longs[self._header(at) + H_SEQUENCE] + (at < position)
        return None

    @property
    def has_next(self) -> bool:
        """Whether the writer has come to the next position."""
        longs = self._control.longs
        at = self._at
        return longs[at] > self._next or longs[at + H_PASSED_OVER] > self._next

    def _check_passed_over(self, position: int, generation: int, passed_over: int) -> None:
        if passed_over == position + 1:
            return
        # A lap later the writer goes past a slot that is claimed here.
        if self.lossy and passed_over > position and position < self._control.longs[LIMIT]:
            return
        self._refuse(
            f"generation {generation} and passed over {passed_over} at position {position}"
        )

    # ------------------------------------------------ waking and sleeping

    def _wake_writer(self) -> None:
        asleep = self._control.ints[ASLEEP]
        if asleep & 1 and asleep != self._rung:
            self._rung = asleep
            self._room.ring()

    @property
    def state(self) -> int:
        """Raises CHANNEL_CORRUPT: a reader would wait for ever in a state that nobody knows."""
        state = self._control.ints[STATE]
        if not 0 <= state <= WRITER_AWAITED:
            self._refuse(f"its state is {state}, which is unknown")
        return state

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
        has_ended = reached == POISON
        if has_ended:
            reached = self._control.longs[at + 1]
        if reached < taken.ready_at:
            return None if has_ended else False
        # WHY the flag: 64 writers later the timeline is that of another writer. Of a message that
        # was given back the slot may have another one.
        flags = self._control.ints[2 * self._header(taken.position) + H_FLAGS]
        return None if flags & FLAG_LOST and not taken.returned else True

    def check_expelled(self) -> None:
        if self._control.longs[self._expelled] == self._lease:
            raise CudaIpcError(
                "READER_EXPELLED",
                f'Cannot read channel "{self.name}": its writer found words in this reader\'s page '
                "that make no sense",
            )

    def leave(self) -> None:
        """Gives all slots and the seat back."""
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
