"""Streams of GPUs at a timeline: what they signal, and what they wait for."""

from __future__ import annotations

import mmap

from ._cuda_streams import GivenStreams, OrderedTimeline, Stream, StreamWords, finish_contexts
from ._deadline import Deadline
from ._memory import round_up
from ._protocol import LINE_BYTES
from ._words import Words


class TimelineStreams:
    """The streams that were given to one timeline. It is made when the first one is given."""

    def __init__(self, words: Words, index: int) -> None:
        length = round_up(8 * index + LINE_BYTES, mmap.PAGESIZE)
        self._words = StreamWords(words, length)
        self._index = index
        self._given = GivenStreams(None)
        self._signals = OrderedTimeline(self._words, index)
        #: The contexts of streams that wait.
        self._waiting: set[int] = set()

    def find(self, stream: object) -> Stream:
        """Raises TypeError or ValueError for what is no stream."""
        return self._given.find(stream)

    def prepare(self, stream: Stream) -> None:
        self._words.prepare(stream)

    @property
    def last_signal(self) -> int:
        """The largest value that a stream has to signal, or has signalled."""
        return self._signals.last_value

    def signal(self, stream: Stream, value: int) -> None:
        """`value` must be larger than `last_signal`."""
        self._signals.signal(stream, value)

    def wait(self, stream: Stream, value: int) -> None:
        self._words.wait(stream, self._index, value)
        self._waiting.add(stream.context)

    def finish(self, deadline: Deadline) -> None:
        """Waits for the streams. Raises TIMEOUT."""
        finish_contexts(self._signals.contexts | self._waiting, deadline)

    def close(self) -> None:
        """Call it after `finish`, before the words are unmapped."""
        self._words.close()
