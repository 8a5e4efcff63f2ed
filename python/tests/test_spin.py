"""A reader spins before it sleeps. What counts is how often it sleeps and is woken, not the time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest
from conftest import LIMIT, until

from cuda_ipc import _waiting, channel_reader
from cuda_ipc._fds import Bell
from cuda_ipc._ring_words import P_ASLEEP
from cuda_ipc._waiting import SPIN_S, Spin

# About 1 us. Sums of it are exact.
STEP = 2.0**-20

pytestmark = pytest.mark.usefixtures("ends_in_time")


@pytest.fixture
def counts(monkeypatch) -> Counter:
    """How often a reader slept, and how often a bell was rung."""
    found: Counter = Counter()
    hear, hear_async, ring = channel_reader.hear, channel_reader.hear_async, Bell.ring

    def heard(*arguments):
        found["sleeps"] += 1
        hear(*arguments)

    async def heard_async(*arguments):
        found["sleeps"] += 1
        await hear_async(*arguments)

    def rung(bell):
        found["rings"] += 1
        ring(bell)

    monkeypatch.setattr(channel_reader, "hear", heard)
    monkeypatch.setattr(channel_reader, "hear_async", heard_async)
    monkeypatch.setattr(Bell, "ring", rung)
    return found


class Late:
    """Sends a message once the reader looks for it: on another thread, if it waits."""

    def __init__(self, writer, reader) -> None:
        self._thread = threading.Thread(target=self._send, args=(writer, reader))
        self._thread.start()

    def _send(self, writer, reader) -> None:
        until("the reader waits", lambda: reader._is_awaited)
        writer.send(b"x")

    def join(self) -> None:
        self._thread.join(LIMIT)


def test_a_reader_that_spins_takes_a_message_without_a_sleep_and_without_its_bell(hub, counts):
    with hub.create_channel("spin", "uint8", 1) as writer:
        with hub.open_channel("spin", spin=1) as reader:
            asleep = reader._parts.page.ints[P_ASLEEP]
            late = Late(writer, reader)
            with reader.next(LIMIT) as message:
                assert message.data == b"x"
            late.join()
            assert reader._parts.page.ints[P_ASLEEP] == asleep
        assert counts == {}


def test_a_reader_with_spin_0_sleeps_at_once_and_its_bell_wakes_it(hub, counts):
    with hub.create_channel("spin", "uint8", 1) as writer:
        with hub.open_channel("spin", spin=0) as reader:
            until_asleep = threading.Thread(
                target=lambda: (
                    until("the reader sleeps", lambda: counts["sleeps"]),
                    writer.send(b"x"),
                )
            )
            until_asleep.start()
            with reader.next(LIMIT) as message:
                assert message.data == b"x"
            until_asleep.join(LIMIT)
        assert counts == {"sleeps": 1, "rings": 1}


def test_next_async_spins_as_next_does(hub, counts):
    async def scenario(spin: float) -> None:
        reader = await hub.open_channel_async("spin", spin=spin)
        late = Late(writer, reader)
        with await reader.next_async(LIMIT) as message:
            assert message.data == b"x"
        late.join()
        reader.close()

    with hub.create_channel("spin", "uint8", 1) as writer:
        asyncio.run(scenario(1))
        assert counts == {}
        asyncio.run(scenario(0))
        assert counts["sleeps"] > 0


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by a step whenever somebody asks."""
    now = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            nonlocal now
            now += STEP
            return now

    monkeypatch.setattr(_waiting, "time", Clock)


def looks(spin: Spin, timeout: float | None = None, found_at: int | None = None) -> int:
    """How often it looks. It finds something at look `found_at`."""
    count = 0

    def look():
        nonlocal count
        count += 1
        return "found" if count == found_at else None

    assert spin.until(look, timeout) == (None if found_at is None else "found")
    return count


def test_a_spin_halves_while_it_finds_nothing_and_doubles_when_it_finds_something(clock):
    spin = Spin(64 * STEP)
    assert [looks(spin) for _ in range(8)] == [64, 32, 16, 8, 4, 2, 1, 1]
    assert looks(spin, found_at=1) == 1
    assert looks(spin) == 2
    for _ in range(10):
        looks(spin, found_at=1)
    assert looks(spin) == 64, "no longer than its limit"


def test_a_spin_takes_no_longer_than_the_timeout_of_its_call(clock):
    assert looks(Spin(64 * STEP), timeout=8 * STEP) == 8
    assert looks(Spin(64 * STEP), timeout=0) == 1
    assert looks(Spin(0)) == 0
    assert looks(Spin(10)) == 1 / STEP, "a second at most"


def test_spin_is_a_number_of_seconds_and_20_us_by_default(hub):
    assert SPIN_S == 20e-6
    with hub.create_channel("spin", "uint8", 1) as writer:
        for wrong in ("1", True, None):
            with pytest.raises(TypeError, match="spin"):
                hub.open_channel("spin", spin=wrong)
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match="spin"):
                hub.open_channel("spin", spin=wrong)
        assert writer.readers == 0
