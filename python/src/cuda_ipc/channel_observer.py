"""Observes a channel without a seat. Its writer does not wait for an observer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ._choices import DTypeName, WhenFull, WhenWriterGone
from ._closing import ClosingAwaited
from ._control import check_control
from ._descriptors import ChannelFacts
from ._layout import require
from ._memory import check_file
from ._protocol import (
    MODE_LOSSY,
    PAGE_BYTES,
    READER_ATTACHED,
    WRITER_AWAITED,
    WRITER_CLOSED,
    WRITER_OPEN,
)
from ._ring_words import (
    DROPPED,
    EPOCH,
    EXPELLED,
    P_ASLEEP,
    P_LEASE,
    P_MISSED,
    P_MODE,
    P_RECEIVED,
    P_RELEASED,
    P_STATE,
    PUBLISHED,
    SEQUENCE,
    STATE,
)
from ._words import Words

if TYPE_CHECKING:
    from ._leases import HeldLease

_WriterState = Literal["open", "awaited", "closed", "gone"]
_WRITER: dict[int, _WriterState] = {
    WRITER_OPEN: "open",
    WRITER_CLOSED: "closed",
    WRITER_AWAITED: "awaited",
}


class ReaderStatistics(NamedTuple):
    place: int
    lossy: bool
    asleep: bool
    #: Its words made no sense, so the writer ignores it.
    expelled: bool
    #: Messages that were committed and that it has not given back.
    behind: int
    received: int
    missed: int


class ChannelStatistics(NamedTuple):
    #: "awaited" waits for the next writer; "gone" has lost its writer.
    writer: _WriterState
    #: The number of writers so far, from 1.
    writers: int
    dtype: DTypeName
    #: In elements, of a message that fills its slot.
    shape: tuple[int, ...]
    slots: int
    readers_max: int
    when_full: WhenFull
    when_writer_gone: WhenWriterGone
    committed: int
    dropped: int
    readers: tuple[ReaderStatistics, ...]


class ChannelObserver(ClosingAwaited):
    """`hub.observe_channel` makes it. Leaving `with` closes it."""

    def __init__(
        self, name: str, held: HeldLease, facts: ChannelFacts, fds: tuple[int, ...]
    ) -> None:
        """Raises INVALID_DESCRIPTOR, PROTOCOL_MISMATCH. The caller keeps the descriptors."""
        super().__init__()
        self._closed = True
        self.name = name
        self._held = held
        self._facts = facts
        wanted = 1 + facts.readers_max
        require(len(fds) == wanted, f"{len(fds)} descriptors came for an observer, wanted {wanted}")
        check_file(fds[0], facts.control_bytes, "the control file", exact=True)
        for fd in fds[1:]:
            check_file(fd, PAGE_BYTES, "a page", exact=True)
        self._control = Words(fds[0], facts.control_bytes, writable=False)
        check_control(self._control, facts)
        self._pages = [Words(fd, PAGE_BYTES, writable=False) for fd in fds[1:]]
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def statistics(self) -> ChannelStatistics:
        """The state now. In a busy channel the counts are of slightly different moments.

        Raises CLOSED.
        """
        return self._using(f'look at channel "{self.name}"', self._statistics)

    def _statistics(self) -> ChannelStatistics:
        facts, words = self._facts, self._control
        return ChannelStatistics(
            _WRITER.get(words.ints[STATE], "gone"),
            words.ints[EPOCH] + 1,
            facts.dtype.name,
            facts.shape,
            facts.slots,
            facts.readers_max,
            facts.when_full,
            facts.when_writer_gone,
            words.longs[SEQUENCE],
            words.longs[DROPPED],
            tuple(
                self._reader(place, page)
                for place, page in enumerate(self._pages)
                if page.ints[P_STATE] == READER_ATTACHED
            ),
        )

    def _reader(self, place: int, page: Words) -> ReaderStatistics:
        lease = page.longs[P_LEASE]
        return ReaderStatistics(
            place,
            page.ints[P_MODE] == MODE_LOSSY or self._facts.when_full == "drop-oldest",
            page.ints[P_ASLEEP] & 1 == 1,
            lease != 0 and self._control.longs[EXPELLED + place] == lease,
            max(0, self._control.longs[PUBLISHED] - page.longs[P_RELEASED]),
            page.longs[P_RECEIVED],
            page.longs[P_MISSED],
        )

    def close(self) -> None:
        if not self._closed:
            self._leave_when_awake(self._leave, lambda: None)

    def _leave(self) -> None:
        for words in (self._control, *self._pages):
            words.close()
        self._held.release()
