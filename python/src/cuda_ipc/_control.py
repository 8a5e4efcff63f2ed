"""The control file of a channel: made here, or checked after it came from another process."""

from __future__ import annotations

from . import _protocol as p
from ._descriptors import ChannelFacts
from ._layout import require
from ._ring_words import FIRST_POSITION
from ._words import Words
from .errors import CudaIpcError


def write_control(words: Words, facts: ChannelFacts) -> None:
    """Writes the fixed words into a file that is all zero. The channel then has a writer."""
    for at, value in _small(facts):
        words.write32(at // 4, value)
    for at, value in _large(facts):
        words.plain[at // 8] = value
    words.store32(p.CONTROL_STATE // 4, p.WRITER_OPEN)


def check_control(words: Words, facts: ChannelFacts) -> int:
    """Compares the fixed words with the descriptor. Returns the first position."""
    magic = tuple(words.ints[p.CONTROL_MAGIC // 4 + n] for n in range(2))
    require(magic == p.MAGIC, f"the control file begins with {magic}")
    version = words.ints[p.CONTROL_VERSION // 4]
    if version != p.CHANNEL_VERSION:
        raise CudaIpcError(
            "PROTOCOL_MISMATCH",
            f"Cannot open a channel: its control file is of version {version}, wanted "
            f"{p.CHANNEL_VERSION}",
        )
    for at, value in _small(facts):
        require(words.ints[at // 4] == value, f"byte {at} of the control file is not {value}")
    for at, value in _large(facts):
        require(words.longs[at // 8] == value, f"byte {at} of the control file is not {value}")
    first = words.longs[FIRST_POSITION]
    require(0 <= first <= p.POSITIONS_MAX, f"firstPosition is {first}")
    return first


def _small(facts: ChannelFacts) -> list[tuple[int, int]]:
    return [
        (p.CONTROL_MAGIC, p.MAGIC[0]),
        (p.CONTROL_MAGIC + 4, p.MAGIC[1]),
        (p.CONTROL_VERSION, p.CHANNEL_VERSION),
        (p.CONTROL_SLOTS, facts.slots),
        (p.CONTROL_READERS_MAX, facts.readers_max),
        (p.CONTROL_META_BYTES_MAX, facts.meta_bytes_max),
        (p.CONTROL_HEADERS_AT, p.HEADERS_AT),
        (p.CONTROL_HEADER_STRIDE, facts.header_stride),
        (p.CONTROL_WHEN_FULL, p.WHEN_FULL.index(facts.when_full)),
        (p.CONTROL_WHEN_WRITER_GONE, p.WHEN_WRITER_GONE.index(facts.when_writer_gone)),
    ]


def _large(facts: ChannelFacts) -> list[tuple[int, int]]:
    return [
        (p.CONTROL_SLOT_BYTES, facts.slot_bytes),
        (p.CONTROL_SLOT_STRIDE, facts.slot_stride),
    ]
