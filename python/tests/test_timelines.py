"""Timelines between Python and Node, and their ends."""

from __future__ import annotations

import asyncio

import pytest
from conftest import LIMIT, code, interrupted


def test_node_waits_for_a_timeline_of_python(hub, node):
    timeline = hub.create_timeline("mine")
    peer = node("timeline", "wait", "mine")
    assert peer.said() == "open"
    peer.tell(5)
    timeline.signal(5)
    assert peer.said() == "reached"
    peer.tell(7)
    timeline.signal(6)
    with pytest.raises(ValueError, match="only grows"):
        timeline.signal(6)
    timeline.close()
    assert peer.said() == "PEER_GONE"
    assert code(lambda: timeline.signal(8)) == "CLOSED"
    peer.finish()


def test_python_waits_for_a_timeline_of_node(hub, node):
    peer = node("timeline", "own", "theirs")
    assert peer.said() == "open"
    timeline = hub.open_timeline("theirs")
    assert timeline.value == 0 and not timeline.ended
    peer.tell(3)
    timeline.wait(3, LIMIT)
    with pytest.raises(TimeoutError, match="it has reached 3"):
        timeline.wait(4, 0.01)
    assert code(lambda: timeline.wait(4, 0)) == "TIMEOUT"
    timeline.wait(2, 0)
    with pytest.raises(TypeError):
        timeline.wait("4")
    peer.kill()
    assert code(lambda: timeline.wait(4, LIMIT)) == "PEER_GONE"
    timeline.wait(3)
    assert timeline.ended and timeline.value == 3
    timeline.close()


def test_a_wait_can_be_cancelled_and_others_go_on_meanwhile(hub):
    mine = hub.create_timeline("cancelled")

    async def scenario() -> None:
        other = await hub.open_timeline_async("cancelled")
        waiting = asyncio.ensure_future(other.wait_async(1, LIMIT))
        cancelled = asyncio.ensure_future(other.wait_async(2))
        await asyncio.sleep(0)
        mine.signal(1)
        await waiting
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        other.close()

    asyncio.run(scenario())


def test_a_signal_ends_a_wait(hub):
    mine = hub.create_timeline("interrupted")
    other = hub.open_timeline("interrupted")
    reader = hub.open_channel
    writer = hub.create_channel("interrupted:channel", "uint8", 1)
    reading = reader("interrupted:channel")
    waits = [
        lambda: other.wait(1),
        lambda: reading.next(),
        lambda: hub.open("never", timeout=None),
    ]
    for wait in waits:
        interrupted(wait, lambda: True)
    writer.send(b"x")
    with reading.next(LIMIT) as message:
        assert message.data == b"x", "the reader goes on"
    while hub.status()["waitingOpens"] > 0:
        pass
    mine.close()
