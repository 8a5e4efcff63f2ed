"""The parts of a channel: memory of the slots, words and bells. They close together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._choices import DTypeLike, WhenFull, WhenWriterGone
from ._control import check_control, write_control
from ._descriptors import ChannelFacts, MemorySource, check_channel_files
from ._dtypes import dtype_of
from ._fds import Bell, SharedFds, close_all, new_bell
from ._layout import Layout, checked_shape, packed_strides, require
from ._memory import Memory, Take, create_file, round_up
from ._protocol import (
    LIMIT_CHANNEL_CONTROL_BYTES,
    LIMIT_CHANNEL_META_BYTES,
    LIMIT_CHANNEL_READERS,
    LIMIT_CHANNEL_SLOTS,
    PAGE_BYTES,
    RANK_MAX,
    WHEN_FULL,
    WHEN_WRITER_GONE,
)
from ._words import Words
from .arrays import Array, Handle
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._cuda_streams import GivenStreams


def new_facts(
    dtype: DTypeLike,
    shape: int | Sequence[int],
    slots: int,
    readers_max: int,
    meta_bytes_max: int,
    when_full: WhenFull,
    when_writer_gone: WhenWriterGone,
    alignment: int,
) -> ChannelFacts:
    """Raises TypeError, ValueError, UNSUPPORTED_DTYPE."""
    found, lengths = dtype_of(dtype), checked_shape(shape, RANK_MAX)
    check_range("slots", slots, 1, LIMIT_CHANNEL_SLOTS)
    check_range("readers_max", readers_max, 1, LIMIT_CHANNEL_READERS)
    check_range("meta_bytes_max", meta_bytes_max, 0, LIMIT_CHANNEL_META_BYTES)
    _check_word("when_full", when_full, WHEN_FULL)
    _check_word("when_writer_gone", when_writer_gone, WHEN_WRITER_GONE)
    size = math.prod(lengths) * found.itemsize
    if size == 0:
        raise ValueError(f"a message of shape {lengths} has no bytes")
    facts = ChannelFacts(
        found,
        lengths,
        slots,
        readers_max,
        size,
        round_up(size, alignment),
        meta_bytes_max,
        when_full,
        when_writer_gone,
    )
    if facts.control_bytes > LIMIT_CHANNEL_CONTROL_BYTES:
        raise ValueError(
            f"{slots} slots with meta_bytes_max {meta_bytes_max} need {facts.control_bytes} bytes "
            f"of control file, at most {LIMIT_CHANNEL_CONTROL_BYTES} are possible"
        )
    return facts


def check_range(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {value}")


def _check_word(name: str, value: object, words: Sequence[str]) -> None:
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r}")


class ReaderParts:
    """What a reader maps. It owns one use of its descriptors."""

    def __init__(
        self, facts: ChannelFacts, source: MemorySource, fds: SharedFds, seat: object
    ) -> None:
        files = fds.fds
        require(len(files) == 5, f"{len(files)} descriptors came for a reader, wanted 5")
        number = seat if type(seat) is int else -1
        if not 0 <= number < facts.readers_max:
            raise CudaIpcError("INVALID_MESSAGE", f"the hub gave the reader the seat {seat!r}")
        check_channel_files(facts, files, [3])
        self.facts = facts
        self.seat = number
        self.memory: Memory = source.map(files[0], readonly=True)
        self.arrays = SlotArrays(facts, self.memory)
        self.control = Words(files[1], facts.control_bytes, writable=False)
        self.first_position = check_control(self.control, facts)
        self.page = Words(files[3], PAGE_BYTES, writable=True)
        self.room, self.bell = Bell(files[2]), Bell(files[4])
        self._fds = fds.share()

    def close(self) -> None:
        self.arrays.close()
        self.page.close()
        self.control.close()
        self._fds.close()


class WriterParts:
    """What a writer maps. It owns one use of its descriptors."""

    def __init__(self, facts: ChannelFacts, memory: Memory, fds: SharedFds) -> None:
        self.facts = facts
        self.memory = memory
        self.arrays = SlotArrays(facts, memory)
        files = fds.fds
        pages = range(3, len(files), 2)
        self.control = Words(files[1], facts.control_bytes, writable=True)
        self.first_position = 0
        self.pages = [Words(files[at], PAGE_BYTES, writable=True) for at in pages]
        self.room = Bell(files[2])
        self.bells = [Bell(files[at + 1]) for at in pages]
        self._fds = fds.share()

    @staticmethod
    def create(
        facts: ChannelFacts, memory: Memory, take: Take | None = None
    ) -> tuple[WriterParts, SharedFds]:
        """A new channel in this memory, and its descriptors."""
        files = memory.fds()
        try:
            for length in (facts.control_bytes, *[PAGE_BYTES] * facts.readers_max):
                files.append(create_file(length))
                if take is not None:
                    take(files[-1], length)
                files.append(new_bell())
            fds = SharedFds(files)
            parts = WriterParts(facts, memory, fds)
        except BaseException:
            close_all(files)
            raise
        write_control(parts.control, facts)
        return parts, fds

    @staticmethod
    def open(facts: ChannelFacts, source: MemorySource, fds: SharedFds) -> WriterParts:
        wanted = 3 + 2 * facts.readers_max
        require(len(fds.fds) == wanted, f"{len(fds.fds)} descriptors came, wanted {wanted}")
        check_channel_files(facts, fds.fds, list(range(3, wanted, 2)))
        parts = WriterParts(facts, source.map(fds.fds[0], readonly=False), fds)
        try:
            parts.first_position = check_control(parts.control, facts)
        except BaseException:
            parts.close()
            raise
        return parts

    def close(self) -> None:
        self.arrays.close()
        for page in self.pages:
            page.close()
        self.control.close()
        self._fds.close()


class SlotArrays:
    """Arrays of the slots. What is the same for all messages of a slot is made once."""

    def __init__(self, facts: ChannelFacts, memory: Memory) -> None:
        self._facts = facts
        self._memory = memory
        self._whole: dict[int, tuple[Layout, dict[str, Any]]] = {}

    def array(self, handle: Handle, slot: int, shape: tuple[int, ...] | None) -> Array:
        """The slot as an array that closes with `handle`. `shape` is None if it is all of it."""
        if shape is not None:
            return Array(handle, self._memory, self._layout(slot, shape))
        known = self._whole.get(slot)
        if known is None:
            known = self._whole[slot] = self._layout(slot, self._facts.shape), {}
        array = Array(handle, self._memory, known[0])
        array._views = known[1]
        return array

    def close(self) -> None:
        # Views of frameworks keep the memory mapped.
        self._whole.clear()

    def _layout(self, slot: int, shape: tuple[int, ...]) -> Layout:
        facts = self._facts
        return Layout(facts.dtype, shape, packed_strides(shape), slot * facts.slot_stride)


def given_streams(memory: Memory) -> GivenStreams:
    # WHY here: to load ctypes takes milliseconds, and many programs need none of it.
    from ._cuda_streams import GivenStreams

    kind, ordinal = memory.device
    return GivenStreams(None if kind == 1 else ordinal)
