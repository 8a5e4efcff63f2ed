"""Timelines between Python and Node, and their ends."""

from __future__ import annotations

import asyncio

import pytest
from conftest import LIMIT, code, interrupted, until

import cuda_ipc


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
    assert timeline.ended and code(lambda: timeline.value) == "PEER_GONE"
    assert code(timeline.read) == "PEER_GONE"
    assert timeline.read(even_if_ended=True) == 3
    assert repr(timeline) == "<Timeline 'theirs' at 3>"
    timeline.close()


def test_the_next_owner_of_a_timeline_continues_it(hub, node):
    peer = node("timeline", "own", "passed-on", "wait")
    assert peer.said() == "open"
    peer.tell(3)
    timeline = hub.open_timeline("passed-on")
    timeline.wait(3, LIMIT)
    assert code(lambda: hub.resume_timeline("passed-on")) == "IN_USE"
    peer.kill()
    until("its owner is awaited", lambda: timeline.awaited)
    assert not timeline.ended and timeline.read(even_if_ended=True) == 3
    with pytest.raises(cuda_ipc.CudaIpcError, match="no other process has resumed it"):
        _ = timeline.value
    with pytest.raises(TimeoutError, match="its next owner is awaited"):
        timeline.wait(4, 0)
    mine = asyncio.run(hub.resume_timeline_async("passed-on"))
    assert mine.value == timeline.value == 3 and not timeline.awaited
    mine.signal(4)
    timeline.wait(4, LIMIT)
    mine.close()
    until("its owner is awaited again", lambda: timeline.awaited)
    hub.remove("passed-on")
    assert timeline.ended
    timeline.close()


def test_a_timeline_of_python_is_continued(hub):
    first = hub.create_timeline("mine", when_owner_gone="wait")
    plain = hub.create_timeline("plain")
    first.signal(2)
    first.close()
    with hub.resume_timeline("mine") as second:
        assert second.value == 2
        second.signal(3)
    assert code(lambda: hub.resume_timeline("plain")) == "READ_ONLY"
    plain.close()
    with pytest.raises(ValueError):
        hub.create_timeline("other", when_owner_gone="keep")
    hub.remove("mine")


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
