"""Timelines in the order of streams: on a GPU, or on the libcuda of the tests that is in C."""

from __future__ import annotations

import os

import pytest
from conftest import LIMIT, code, until
from test_cuda import why_not
from test_streams import SIZE, gate, new_stream, own, stream

__all__ = ["gate", "new_stream", "own", "stream"]  # fixtures

pytestmark = [
    pytest.mark.skipif(why_not() != "", reason=why_not()),
    pytest.mark.usefixtures("ends_in_time"),
]


def test_a_stream_signals_once_it_has_done_its_work(hub, node, gate, stream):
    with hub.create_timeline("streamed") as timeline, gate:
        peer = node("timeline", "wait", "streamed")
        assert peer.said() == "open"
        peer.tell(3)
        stream.wait(gate)
        timeline.signal(3, stream=stream)
        with hub.open_timeline("streamed") as same:
            with pytest.raises(TimeoutError, match="it has reached 0"):
                same.wait(3, 0.01)
            assert not same.reached(3)
            gate.open()
            until("the stream is done", stream.is_idle)
            same.wait(3, LIMIT)
            assert same.reached(3) and timeline.value == 3
        assert peer.said() == "reached"
        peer.finish()


def test_a_stream_waits_for_a_value(hub, stream, own):
    with hub.create_timeline("awaited") as timeline, hub.open_timeline("awaited") as same:
        same.wait(2, stream=stream)
        stream.fill(own.address, 7, SIZE)
        assert not stream.is_idle()
        timeline.signal(1)
        assert not stream.is_idle()
        timeline.signal(2)
        until("the stream is done", stream.is_idle)
        assert own.content() == b"\7" * SIZE
        same.wait(1, stream=stream)
        assert stream.is_idle(), "what was reached is not waited for"


def test_signals_of_streams_and_of_the_cpu_only_grow(hub, gate, new_stream):
    first, second = new_stream(), new_stream()
    with hub.create_timeline("ordered") as timeline, gate:
        first.wait(gate)
        timeline.signal(5, stream=first)
        with pytest.raises(ValueError, match="a timeline at 5 cannot come to 5"):
            timeline.signal(5, stream=second)
        with pytest.raises(ValueError, match="only grows"):
            timeline.signal(4)
        assert code(lambda: timeline.signal(6)) == "IN_USE"
        timeline.signal(7, stream=second)
        assert not second.is_idle(), "it waits for the stream that signals 5"
        assert timeline.value == 0
        gate.open()
        for each in (first, second):
            until("a stream is done", each.is_idle)
        assert timeline.value == 7
        timeline.signal(8)
        timeline.signal(9, stream=first)
        until("the stream is done", first.is_idle)
        assert timeline.value == 9


def test_close_waits_for_the_streams(hub, gate, stream):
    timeline = hub.create_timeline("closing")
    with gate, hub.open_timeline("closing") as same:
        stream.wait(gate)
        timeline.signal(1, stream=stream)
        assert code(lambda: timeline.close(0.01)) == "TIMEOUT"
        assert not timeline.closed and not same.ended
        gate.open()
        timeline.close(LIMIT)
        assert same.ended and same.read(even_if_ended=True) == 1
        assert stream.is_idle()


def test_a_stream_goes_on_when_the_owner_dies(hub, node, stream):
    peer = node("timeline", "own", "dies")
    assert peer.said() == "open"
    with hub.open_timeline("dies") as timeline:
        timeline.wait(4, stream=stream)
        assert not stream.is_idle()
        peer.kill()
        until("the stream goes on", stream.is_idle)
        assert code(lambda: timeline.reached(4)) == "PEER_GONE"
        assert code(lambda: timeline.wait(4, stream=stream)) == "PEER_GONE"
        assert timeline.reached(0)


def test_a_timeline_is_prepared_before_streams_wait(hub, gate, stream, monkeypatch):
    from cuda_ipc._cuda_streams import StreamWords

    with hub.create_timeline("prepared") as timeline, gate:
        timeline.prepare(stream)
        # The driver could wait for the stream here.
        monkeypatch.delattr(StreamWords, "_register")
        stream.wait(gate)
        timeline.signal(1, stream=stream)
        assert timeline.value == 0
        gate.open()
        until("the stream is done", stream.is_idle)
        assert timeline.value == 1


def test_what_is_no_stream_is_refused(hub):
    with hub.create_timeline("refused") as timeline:
        for wrong in ("stream", 1.5, -1, object()):
            for use in (
                lambda wrong=wrong: timeline.signal(1, stream=wrong),
                lambda wrong=wrong: timeline.wait(1, stream=wrong),
                lambda wrong=wrong: timeline.prepare(wrong),
            ):
                with pytest.raises((TypeError, ValueError), match="stream"):
                    use()
        assert timeline.value == 0
        timeline.signal(1)
        for wrong in ({"stream": "stream"}, {"spin": -1}, {"timeout": "1"}):
            with pytest.raises((TypeError, ValueError)):
                timeline.wait(1, **wrong)  # which is reached
    for use in (timeline.prepare, lambda stream: timeline.wait(1, stream=stream)):
        assert code(lambda use=use: use(1)) == "CLOSED"


def test_a_forked_child_cannot_use_the_streams_of_a_timeline(hub, stream):
    with hub.create_timeline("forked") as timeline:
        timeline.signal(1, stream=stream)
        until("the stream is done", stream.is_idle)
        child = os.fork()
        if child == 0:
            refused = code(lambda: timeline.signal(2, stream=stream)) == "CLOSED"
            timeline.close()
            os._exit(0 if refused else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert timeline.value == 1 and not timeline.ended
