"""The shared memory of a group as one member sees it: it writes its own words, and checks others'.

Two slots for each rank are enough: a member that enters barrier n + 2 has passed n + 1, so all have
read the values of n.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from .._layout import Refused
from .._memory import check_file, create_file, round_up
from .._protocol import LIMIT_GATHER_BYTES
from .._words import Words
from ..errors import CudaIpcError

_MAGIC = 0x6375646169706367
_VERSION = 1
_HEADER_BYTES = _ROW_BYTES = 64
_ARRIVED, _ENDED, _GATHERED = 0, 1, 2
_ALIGNMENT = 4096

LEFT, GAVE_UP, SAW_DEATH = 1, 2, 3
_REASONS = 4
_RANKS = 1024
#: Values of `gathered` are multiples of this for the barrier, plus a length.
_LENGTHS = 1 << 20


class End(NamedTuple):
    #: The first barrier that the rank misses.
    barrier: int
    reason: int
    #: The rank that left, gave up, or died.
    rank: int


class GroupWords:
    def __init__(self, fd: int, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._words = Words(fd, byte_length(size), writable=True)

    @staticmethod
    def create(size: int) -> tuple[int, GroupWords]:
        """New memory, whose descriptor the caller closes, and its words as rank 0."""
        fd = create_file(byte_length(size))
        try:
            words = GroupWords(fd, 0, size)
        except BaseException:
            os.close(fd)
            raise
        for index, value in enumerate((_MAGIC, _VERSION, size)):
            words._words.store(index, value)
        return fd, words

    @staticmethod
    def open(fd: int, rank: int, size: int) -> GroupWords:
        """Maps the memory that rank 0 sent. Raises INVALID_DESCRIPTOR for any other."""
        try:
            check_file(fd, byte_length(size), "the memory of a group", exact=True)
        except Refused as refused:
            raise _refuse(str(refused)) from refused
        words = GroupWords(fd, rank, size)
        found = tuple(words._words.longs[index] for index in range(3))
        if found != (_MAGIC, _VERSION, size):
            words.close()
            raise _refuse(f"it begins with {found}, wanted {(_MAGIC, _VERSION, size)}")
        return words

    def arrive(self, barrier: int) -> None:
        """SYNC: others that see it also see what this rank wrote before."""
        self._words.store(_row(self.rank) + _ARRIVED, barrier)

    def arrived(self, rank: int) -> int:
        """The last barrier that the rank has entered. One that breaks the rules says anything."""
        return self._words.longs[_row(rank) + _ARRIVED]

    def end(self, barrier: int, reason: int, rank: int) -> None:
        """This rank misses this barrier and all later ones. Only the first call counts."""
        index = _row(self.rank) + _ENDED
        if self._words.longs[index] == 0:
            self._words.store(index, (barrier * _RANKS + rank) * _REASONS + reason)

    def ended(self, rank: int) -> End | None:
        """Whether the rank takes part no more. Raises ValueError for a word no member writes."""
        word = self._words.longs[_row(rank) + _ENDED]
        if word == 0:
            return None
        rest, reason = divmod(word, _REASONS)
        barrier, concerned = divmod(rest, _RANKS)
        sound = barrier >= 1 and reason != 0 and concerned < self.size
        if not sound or (reason == SAW_DEATH) == (concerned == rank):
            raise ValueError
        return End(barrier, reason, concerned)

    def give(self, barrier: int, data: bytes) -> None:
        """Stores this rank's value for the barrier. Call it before `arrive`."""
        at = _slot(self.size, self.rank, barrier)
        self._words.bytes[at : at + len(data)] = data
        index = _row(self.rank) + _GATHERED + barrier % 2
        self._words.store(index, barrier * _LENGTHS + len(data))

    def given(self, rank: int, barrier: int) -> bytes | None:
        """A copy of the rank's value at this barrier, which is complete. None if it gave none."""
        word = self._words.longs[_row(rank) + _GATHERED + barrier % 2]
        length = word - barrier * _LENGTHS
        if not 0 <= length <= LIMIT_GATHER_BYTES:
            return None
        at = _slot(self.size, rank, barrier)
        return bytes(self._words.bytes[at : at + length])

    def close(self) -> None:
        self._words.close()


def _row(rank: int) -> int:
    return (_HEADER_BYTES + rank * _ROW_BYTES) // 8


def _slot(size: int, rank: int, barrier: int) -> int:
    begin = round_up(_HEADER_BYTES + size * _ROW_BYTES, _ALIGNMENT)
    return begin + (rank * 2 + barrier % 2) * LIMIT_GATHER_BYTES


def byte_length(size: int) -> int:
    """Bytes of the whole memory."""
    return _slot(size, size, 0)


def _refuse(found: str) -> CudaIpcError:
    return CudaIpcError("INVALID_DESCRIPTOR", f"Cannot use the memory of a group: {found}")
