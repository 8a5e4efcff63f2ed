"""Makes a process the next writer of a channel.

docs/protocol.md ("Taking over") has the algorithm.
"""

from __future__ import annotations

from . import _protocol as p
from ._descriptors import ChannelFacts
from ._layout import INTEGER_MAX
from ._ring_words import (
    ASLEEP,
    EPOCH,
    H_EPOCH,
    H_FLAGS,
    H_PASSED_OVER,
    H_READY_AT,
    H_SEQUENCE,
    HEADERS,
    LIMIT,
    LINE,
    PUBLISHED,
    READY,
    SEQUENCE,
    STATE,
)
from ._words import Words
from .errors import CudaIpcError


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
