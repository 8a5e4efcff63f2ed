"""A writer changes its words before each load of a reader. The call ends all the same.

test/unit/ring/bounded-looks.test.ts has the same cases for the library of Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading

import pytest

from cuda_ipc import ChannelReader, ChannelWriter, CudaIpcError
from cuda_ipc import _protocol as p
from cuda_ipc._control import write_control
from cuda_ipc._descriptors import ChannelFacts
from cuda_ipc._dtypes import DTYPES
from cuda_ipc._memory import create_file
from cuda_ipc._ring_reader import RingReader
from cuda_ipc._ring_words import (
    H_FLAGS,
    H_PASSED_OVER,
    H_READY_AT,
    H_SEQUENCE,
    HEADERS,
    LIMIT,
    P_CLAIMS,
    P_LEASE,
    P_RELEASED,
    PUBLISHED,
)
from cuda_ipc._ring_writer import RingWriter
from cuda_ipc._service.receiver import Inbox
from cuda_ipc._words import Words

LOOKS = p.LIMIT_CHANNEL_LOOKS
#: More than the loads of one look.
LOADS = LOOKS * 40
LEASE = 9


class Chime:
    def __init__(self) -> None:
        self.rung = 0

    def ring(self) -> None:
        self.rung += 1

    def silence(self) -> None:
        pass


class Restless:
    """The words of a file. Another process changes them before each load."""

    def __init__(self, words: Words, change, loads_max: int) -> None:
        self._longs = words.longs
        self._change = change
        self._max = loads_max
        self.loads = 0

    def __getitem__(self, index: int) -> int:
        self.loads += 1
        assert self.loads <= self._max, f"it looks on and on: {self.loads} loads"
        self._change()
        return self._longs[index]


class Ring:
    def __init__(self, slots: int, when_full: str, first: int = 0) -> None:
        self.facts = ChannelFacts(DTYPES["uint8"], (16,), slots, 1, 16, 64, 64, when_full, "end")
        self.fds = [create_file(self.facts.control_bytes), create_file(p.PAGE_BYTES)]
        self.control, self.page = (
            Words(fd, os.fstat(fd).st_size, writable=True) for fd in self.fds
        )
        self.first = first
        write_control(self.control, self.facts)
        if first:
            self.control.plain[p.CONTROL_FIRST_POSITION // 8] = first
            self.control.plain[PUBLISHED] = self.control.plain[LIMIT] = first
        self.page.plain[P_LEASE] = LEASE
        self.writer = RingWriter(
            "ring", self.control, self.facts, first, [self.page], [Chime()]  # type: ignore[list-item]
        )  # fmt: skip

    def reader(self, start: str = "next", lossy: bool = False) -> RingReader:
        return RingReader(
            "ring", self.control, self.page, self.facts, self.first, 0, LEASE, start, lossy,
            Chime(),  # type: ignore[arg-type]
        )  # fmt: skip

    def put(self) -> bool:
        if not self.writer.reserve():
            return False
        self.writer.commit(16, 0, b"", None)
        return True

    def header(self, slot: int) -> int:
        return HEADERS + slot * self.facts.header_stride // 8

    def during(self, change, call, loads_max: int = LOADS):
        """Calls with `change` before each load of the control file."""
        longs = self.control.longs
        self.control.longs = Restless(self.control, change, loads_max)
        try:
            return call()
        finally:
            self.control.longs = longs


@pytest.fixture
def ring():
    rings: list[Ring] = []

    def make(slots: int, when_full: str = "wait", first: int = 0) -> Ring:
        rings.append(Ring(slots, when_full, first))
        return rings[-1]

    yield make
    for one in rings:
        one.control.close()
        one.page.close()
        for fd in one.fds:
            os.close(fd)


def outruns(ring: Ring):
    """A writer that seems to have overtaken the reader at each look."""
    plain, limit = ring.control.plain, ring.facts.slots

    def change() -> None:
        nonlocal limit
        limit += 2 * ring.facts.slots + 1
        plain[PUBLISHED] = plain[LIMIT] = limit
        for slot in range(ring.facts.slots):
            plain[ring.header(slot)] = 2**50

    return change


def test_taking_ends_if_the_writer_is_always_faster_than_a_lossy_reader(ring):
    one = ring(4, "drop-oldest")
    reader = one.reader()
    assert one.during(outruns(one), reader.try_take) is None
    assert reader.is_outrun
    assert reader.has_next
    assert all(one.page.plain[P_CLAIMS + claim] == 0 for claim in range(p.CLAIMS))


@pytest.mark.parametrize("lossy", [False, True])
def test_taking_ends_if_the_writer_passes_over_each_position(ring, lossy):
    one = ring(4)
    reader = one.reader(lossy=lossy)
    plain = one.control.plain
    plain[LIMIT] = plain[PUBLISHED] = 2**40

    def change() -> None:
        plain[LIMIT] = reader._next + 4
        plain[one.header(reader._next % 4) + H_PASSED_OVER] = reader._next + 1

    assert one.during(change, reader.try_take) is None
    assert reader.is_outrun
    assert reader._next == one.page.plain[P_RELEASED] == LOOKS


def lose(one: Ring, reader: RingReader, flags: int, ready_at: int) -> None:
    """Writes a message at the reader's position."""
    at = one.header(reader._next % one.facts.slots)
    one.control.write32(2 * at + H_FLAGS, flags)
    one.control.plain[at + H_READY_AT] = ready_at
    one.control.plain[at + H_SEQUENCE] = reader._next
    one.control.plain[at] = reader._next + 1


def test_taking_ends_if_each_message_is_lost(ring):
    one = ring(4)
    reader = one.reader()
    assert one.during(lambda: lose(one, reader, p.FLAG_LOST, 0), reader.try_take) is None
    assert reader.is_outrun
    assert reader.missed == LOOKS


def test_the_next_call_continues(ring):
    one = ring(3 * LOOKS)
    reader = one.reader()
    for _ in range(3 * LOOKS - 1):
        assert one.writer.reserve()
        one.writer.pass_over()
    assert one.put()
    assert [reader.try_take(), reader.try_take()] == [None, None]
    assert reader.is_outrun
    taken = reader.try_take()
    assert taken is not None
    assert taken.sequence == 0
    assert reader.try_take() is None
    assert not reader.is_outrun


@pytest.mark.parametrize("start", ["next", "oldest", "latest"])
@pytest.mark.parametrize("lossy", [False, True])
def test_attaching_ends_if_the_limit_rises_at_each_look(ring, start, lossy):
    one = ring(4)
    for _ in range(4):
        assert one.put()
    at = 8

    def change() -> None:
        nonlocal at
        at += 9
        one.control.plain[PUBLISHED] = one.control.plain[LIMIT] = at

    if lossy:
        one.during(change, lambda: one.reader(start, True))
        return
    with pytest.raises(CudaIpcError) as wrong:
        one.during(change, lambda: one.reader(start, False))
    assert wrong.value.code == "CHANNEL_CORRUPT"
    assert "although the writer waits for this reader" in str(wrong.value)


@pytest.mark.parametrize("start", ["next", "oldest", "latest"])
def test_attaching_looks_at_each_header_at_most_twice_and_a_few_more(ring, start):
    slots = 1024
    one = ring(slots, first=7)
    for slot in range(slots):
        one.control.plain[one.header(slot)] = 1
    count = 0

    def change() -> None:
        nonlocal count
        count += 1
        one.control.plain[PUBLISHED] = 2 * slots + count
        one.control.plain[LIMIT] = 2 * slots + count + 1

    one.during(change, lambda: one.reader(start, True), 4 * slots + LOADS)


def test_a_writer_passes_over_as_many_slots_as_can_be_held_and_a_few_more(ring):
    slots = 2048
    one = ring(slots, "drop-oldest")
    one.reader()
    for _ in range(slots):
        assert one.put()
    writer, page = one.writer, one.page
    # Always the slot that the writer is about to write.
    page.longs = Restless(
        page, lambda: page.store(P_CLAIMS, writer.position - slots + 1), 200 * slots
    )
    assert not writer.reserve()
    assert writer.position - slots == p.CLAIMS + LOOKS + 1


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("when_full", ["wait", "drop-oldest"])
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("count", [1, 5])
def test_an_honest_writer_that_writes_at_each_look_is_never_corrupt(
    ring, slots, when_full, lossy, count
):
    for start in ("next", "oldest", "latest"):
        one = ring(slots, when_full)
        assert one.put()
        longs = one.control.longs

        def write(one=one, longs=longs) -> None:
            # The writer's own loads change nothing.
            restless, one.control.longs = one.control.longs, longs
            for _ in range(count):
                one.put()
            one.control.longs = restless

        reader = one.during(write, lambda one=one, start=start: one.reader(start, lossy))
        taken = one.during(write, reader.try_take)
        if taken is not None:
            reader.release(taken)
        while (taken := reader.try_take()) is not None:
            reader.release(taken)
        assert one.put()
        taken = reader.try_take()
        assert taken is not None
        assert taken.sequence == one.writer.sequence - 1


# ------------------------------------------------ readers of a channel


class Image:
    """The words of a channel, of which some are others at each look."""

    def __init__(self, reader: ChannelReader, change) -> None:
        self._longs = reader._parts.control.longs
        self._change = change
        self.loads = 0
        take = reader._ring.try_take

        def try_take():
            self.loads = 0
            return take()

        reader._ring.try_take = try_take  # type: ignore[method-assign]
        reader._parts.control.longs = self

    def __getitem__(self, index: int) -> int:
        self.loads += 1
        assert self.loads <= LOADS, f"it looks on and on: {self.loads} loads"
        changed = self._change(index)
        return self._longs[index] if changed is None else changed


def overtaken():
    """A writer that seems to have overtaken the reader at each look."""
    limit = 1

    def change(index: int) -> int | None:
        nonlocal limit
        limit += 3
        if index in (PUBLISHED, LIMIT):
            return limit
        return 2**50 if index >= HEADERS else None

    return change


@contextlib.contextmanager
def channel(hub):
    # WHY no fixture: pytest keeps what that yields, and with it the mappings.
    with (
        hub.create_channel("restless", "uint8", 16, slots=1, when_full="drop-oldest") as writer,
        hub.open_channel("restless", spin=0) as reader,
    ):
        yield writer, reader


def test_next_ends_at_its_deadline_and_says_why(hub):
    with channel(hub) as (_, reader):
        Image(reader, overtaken())
        assert reader.try_next() is None
        with pytest.raises(CudaIpcError) as late:
            reader.next(0.02)
        assert late.value.code == "TIMEOUT"
        assert "its writer never stops changing its words: 256 looks found no message" in str(
            late.value
        )


def test_next_async_gives_other_tasks_their_turn(hub):
    with channel(hub) as (_, reader):
        Image(reader, overtaken())

        async def main():
            task = asyncio.create_task(reader.next_async())
            for _ in range(10):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())


def floods(writer: ChannelWriter, reader: ChannelReader, ready_at: int) -> None:
    """Before each look of the reader there is one more message."""
    take = reader._ring.try_take
    calls = 0

    def try_take():
        nonlocal calls
        calls += 1
        assert calls <= 2 * LOOKS, "it takes on and on"
        if writer._ring.reserve():
            writer._ring.commit(16, 0, b"", None, ready_at)
        return take()

    reader._ring.try_take = try_take  # type: ignore[method-assign]


def test_messages_that_are_lost_do_not_hold_try_next_up(hub):
    with channel(hub) as (writer, reader):
        floods(writer, reader, 1)
        reader._ring.readiness = lambda taken: None  # type: ignore[method-assign]
        assert reader.try_next() is None
        assert reader.missed == LOOKS + 1


# ------------------------------------------------ channels of a service


def has_rung(reader: ChannelReader) -> bool:
    return select.select([reader._parts.bell.fd], [], [], 0)[0] != []


def inbox_of(reader: ChannelReader, ended: list[object]) -> Inbox:
    return Inbox(reader, threading.RLock(), lambda message: message.release(), ended.append)


def test_a_service_looks_at_other_channels_while_one_never_stops_changing(hub):
    with channel(hub) as (_, reader):
        ended: list[object] = []
        Image(reader, overtaken())
        inbox_of(reader, ended).receive()
        assert ended == []
        assert has_rung(reader), "so its thread looks again"


def test_a_service_looks_at_other_channels_while_one_always_has_a_message(hub):
    with channel(hub) as (writer, reader):
        ended: list[object] = []
        floods(writer, reader, 0)
        inbox_of(reader, ended).receive()
        assert ended == []
        assert reader.received == LOOKS
        assert has_rung(reader), "so its thread looks again"
