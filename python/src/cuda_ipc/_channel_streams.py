"""Streams of GPUs at a channel: what a writer's streams fill, and what a reader's streams use.

docs/protocol.md ("Take a message", "Give a slot back", "The writer") has the rules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ._cuda_streams import OrderedTimeline, Stream, StreamWords
from ._protocol import HEADERS_AT, PAGE_BYTES, READY_LINES
from ._ring_message import Taken
from ._ring_reader import RingReader
from ._ring_words import LINE, P_DONE, READY
from ._ring_writer import RingWriter
from ._words import Words


class WriterStreams:
    """The streams of a writer. It is made when the first stream is given."""

    def __init__(self, ring: RingWriter, control: Words, pages: Sequence[Words]) -> None:
        self._ring = ring
        self._control = control
        self._words = StreamWords(control, HEADERS_AT)
        self._pages = [StreamWords(page, PAGE_BYTES) for page in pages]
        self._ready = OrderedTimeline(self._words, ring.ready_line)
        #: The contexts of streams that wait for readers.
        self._waiting: set[int] = set()
        #: The value of `ready` at which each slot is filled, for slots that a stream fills.
        self._filled_at: dict[int, int] = {}

    def order(self, stream: Stream | None) -> bool:
        """Lets the stream wait for all streams that use the slot which is reserved.

        False if the CPU would have to wait for them, because there is no stream.
        """
        ring = self._ring
        filled_at = self._filled_at.get(ring.slot, 0)
        pending = ring.pending_releases() if ring.any_gpu else ()
        if stream is None:
            return not pending and self._control.longs[ring.ready_line] >= filled_at
        self._ready.wait_on(stream, filled_at)
        for seat, value in pending:
            self._pages[seat].wait(stream, P_DONE, value)
            self._waiting.add(stream.context)
        return True

    def fill(self, stream: Stream) -> int:
        """Enqueues that the slot which is reserved is filled. Returns the value of `ready`."""
        value = self._ring.position + 1
        self._ready.signal(stream, value)
        self._filled_at[self._ring.slot] = value
        return value

    @property
    def contexts(self) -> set[int]:
        """The contexts of all streams that use the words."""
        return self._ready.contexts | self._waiting

    def close(self) -> None:
        """Call it once the contexts are idle, before the words are unmapped."""
        for words in (self._words, *self._pages):
            words.close()


class ReaderStreams:
    """The streams of a reader."""

    def __init__(self, ring: RingReader, control: Words, page: Words) -> None:
        self._ring = ring
        self._control = StreamWords(control, HEADERS_AT)
        self._page = StreamWords(page, PAGE_BYTES)
        self._done = OrderedTimeline(self._page, P_DONE)
        #: The contexts of streams that wait for the writer.
        self._waiting: set[int] = set()
        # Messages that a stream waits for.
        self._awaited: deque[Taken] = deque()

    def await_data(self, stream: Stream, taken: Taken) -> None:
        """Lets the stream wait for the data of a message."""
        line = READY + LINE * (taken.epoch % READY_LINES)
        self._control.wait(stream, line, taken.ready_at)
        self._waiting.add(stream.context)
        self._awaited.append(taken)

    def look(self) -> None:
        """Gives back what a stream has refused. Counts messages as missed that a stream waited for,
        and whose writer died before."""
        if self._ring.is_refused:
            self._ring.retry()
        if self._awaited:
            self.settle()

    def settle(self) -> None:
        """Notes which data have come of the messages that a stream waited for."""
        while self._awaited:
            first = self._awaited[0]
            is_ready = self._ring.readiness(first)
            if is_ready is False:
                return
            self._awaited.popleft()
            first.came = is_ready is not None
            if not first.came:
                self._ring.count_lost(first)

    def release(self, taken: Taken, stream: Stream) -> None:
        self._ring.release(taken, lambda value: self._done.signal(stream, value))

    @property
    def contexts(self) -> set[int]:
        """The contexts of all streams that use the words."""
        return self._done.contexts | self._waiting

    def close(self) -> None:
        """Call it once the contexts are idle, before the words are unmapped."""
        self._control.close()
        self._page.close()
