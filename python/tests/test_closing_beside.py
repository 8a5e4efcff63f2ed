"""Another thread closes an object at each line of a call: the call succeeds, or raises CLOSED."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest
from conftest import LIMIT, SOURCE, code, until

import cuda_ipc
from cuda_ipc import _closing

#: No line of these runs with a lock that `close` needs.
PARTS = ("arrays", "channel_", "groups", "_messages", "_ring", "shared", "_slot_loans", "timelines")

pytestmark = pytest.mark.usefixtures("ends_in_time")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The call that `close` would wait for a little goes on only after it."""
    monkeypatch.setattr(_closing, "_PATIENCE_S", 0.0)


class ClosedBeside:
    """Calls `close` on another thread at the nth line that the package runs."""

    def __init__(self, nth: int, close: Callable[[], object]) -> None:
        self._left = nth
        self._close = close
        self.failures: list[BaseException] = []
        self.happened = False

    def run(self, call: Callable[[], object]) -> str:
        sys.settrace(self._trace)
        try:
            call()
            return "done"
        except cuda_ipc.CudaIpcError as wrong:
            return wrong.code
        except Exception as wrong:
            return repr(wrong)
        finally:
            sys.settrace(None)

    def _trace(self, frame, event, _):
        path, name = os.path.split(frame.f_code.co_filename)
        if not path.startswith(SOURCE) or not name.startswith(PARTS):
            return None
        if event == "line" and not self.happened:
            self._left -= 1
            if self._left == 0:
                self.happened = True
                thread = threading.Thread(target=self._close_now)
                thread.start()
                thread.join(LIMIT)
                assert not thread.is_alive()
        return self._trace

    def _close_now(self) -> None:
        try:
            self._close()
        except BaseException as wrong:
            self.failures.append(wrong)


def outcomes(make, call, close) -> set[str]:
    """What the call does if the object is closed at its first line, at its second, and so on."""
    found: set[str] = set()
    nth = 1
    while True:
        one = make()
        beside = ClosedBeside(nth, lambda one=one: close(one))
        outcome = beside.run(lambda one=one: call(one))
        close(one)
        assert beside.failures == []
        if not beside.happened:
            return found
        found.add(outcome)
        nth += 1


EACH = {"done", "CLOSED"}


@pytest.mark.parametrize("closes_hub", [False, True])
@pytest.mark.parametrize("when_full", ["wait", "drop-newest"])
def test_a_send_beside_close_succeeds_or_raises_closed(hub, socket, when_full, closes_hub):
    made = []

    def make():
        other = cuda_ipc.connect(socket)
        options = {"slots": 1, "when_full": when_full}
        made.append((other, other.create_channel("beside", "uint8", 4, **options)))
        return made[-1]

    def close(one):
        one[0 if closes_hub else 1].close()

    assert outcomes(make, lambda one: one[1].send(b"1234", meta=1, timeout=5), close) <= EACH
    for other, writer in made:
        assert writer.closed and writer.committed in (0, 1) and writer.dropped == 0
        assert writer.readers == 0
        other.close()


def test_next_and_release_beside_close_succeed_or_raise_closed(hub):
    with hub.create_channel("beside", "uint8", 4, slots=4) as writer:

        def make():
            reader = hub.open_channel("beside", lossy=True)
            writer.send(b"1234")
            return reader

        def read(reader):
            message = reader.next(5)
            _ = message.data, message.array, message.ready
            message.release()
            return reader.missed, reader.received

        assert outcomes(make, read, lambda reader: reader.close()) <= EACH
        until("all seats are free", lambda: writer.readers == 0)


@pytest.mark.parametrize("call", ["signal", "wait", "reached", "value", "ended"])
def test_a_timeline_beside_close_works_or_raises_closed(hub, call):
    calls = {
        "signal": lambda timeline: timeline.signal(1),
        "wait": lambda timeline: timeline.wait(0),
        "reached": lambda timeline: timeline.reached(0),
        "value": lambda timeline: timeline.value,
        "ended": lambda timeline: timeline.ended,
    }
    make = lambda: hub.create_timeline("beside")  # noqa: E731
    assert outcomes(make, calls[call], lambda one: one.close()) <= EACH


def test_a_closed_timeline_stays_ended_although_a_signal_was_under_way(hub):
    with hub.create_timeline("beside") as steps:
        with hub.open_timeline("beside") as same:
            beside = ClosedBeside(1, steps.close)
            assert beside.run(lambda: steps.signal(1)) in EACH
            until("it has ended", lambda: same.ended)


def test_statistics_beside_close_are_there_or_raise_closed(hub):
    with hub.create_channel("beside", "uint8", 4), hub.open_channel("beside"):
        make = lambda: hub.observe_channel("beside")  # noqa: E731
        found = outcomes(make, lambda one: one.statistics(), lambda one: one.close())
        assert found <= EACH


def test_arrays_and_bundles_beside_close_work_or_raise_closed(hub):
    def use(array):
        array.write(b"1234")
        array.publish()
        return array.tobytes(), array.readonly, array.device

    assert outcomes(lambda: hub.create("beside", "uint8", 4), use, lambda one: one.close()) <= EACH

    def use_bundle(bundle):
        bundle["a"].write(b"1234")
        bundle.publish()

    make = lambda: hub.create_bundle("beside", {"a": ("uint8", 4)})  # noqa: E731
    assert outcomes(make, use_bundle, lambda one: one.close()) <= EACH


def test_a_barrier_beside_close_is_met_or_raises_closed(tmp_path):
    numbers = iter(range(10**6))

    def make():
        return cuda_ipc.Group.join(path=str(tmp_path / f"g{next(numbers)}"), rank=0, size=1)

    assert outcomes(make, lambda one: one.all_gather(1), lambda one: one.close()) <= EACH


def test_an_object_that_comes_as_the_hub_is_closed_is_closed_too(hub, socket, monkeypatch):
    """The hub is closed just before the new object is registered with it."""
    with hub.put("beside", b"1234"):
        for call in (
            lambda other: other.open("beside"),
            lambda other: other.create("beside:new", "uint8", 1),
            lambda other: other.create_channel("beside:new", "uint8", 1),
            lambda other: other.create_timeline("beside:new"),
        ):
            other = cuda_ipc.connect(socket)
            keep = other._keep

            def late(*given, other=other, keep=keep):
                other.close()
                return keep(*given)

            other._keep = late
            assert code(lambda call=call, other=other: call(other)) == "CLOSED"
        until("nothing is left", lambda: not hub.list(prefix="beside:"))
