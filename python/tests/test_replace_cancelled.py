"""Whatever ends a call with `replace`, the name has the old object or the new one, never none."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import linecache
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT, SOURCE, HubProcess, until

import cuda_ipc
from cuda_ipc._connection import Connection
from cuda_ipc._deadline import Deadline
from cuda_ipc._link import Link

numpy = pytest.importorskip("numpy")

pytestmark = pytest.mark.usefixtures("ends_in_time")

WHEN = ["before", "begun", "sent", "after"]
#: Of the old object.
OLD = [0, 0, 0]
NEW = [1, 1, 1]


@pytest.fixture(scope="module")
def module_hub() -> Iterator[HubProcess]:
    """Of their own, because these tests kill it and count its objects."""
    process = HubProcess()
    yield process
    process.end()


@pytest.fixture
def socket(module_hub) -> str:
    return module_hub.socket


@pytest.fixture
def other(socket, nothing_left_over) -> Iterator[cuda_ipc.Hub]:
    with cuda_ipc.connect(socket) as client:
        yield client
        with contextlib.suppress(cuda_ipc.CudaIpcError):
            client.remove("x")  # a pinned one
        until("the next test finds no object", lambda: objects(client) == 0)


@pytest.fixture
def hub(socket, other) -> Iterator[cuda_ipc.Hub]:
    with cuda_ipc.connect(socket) as session:
        yield session


def values(other: cuda_ipc.Hub) -> list[Any]:
    """The name has whole values, at once."""
    with other.open("x", wait=False) as found:
        return found.tolist()


def objects(hub: cuda_ipc.Hub) -> int:
    return int(hub.status()["objects"])


def put(hub: cuda_ipc.Hub) -> Any:
    return hub.put("x", numpy.ones(3), replace=True)


class Step:
    """Calls `happens` once, on the thread of the call, at one moment of the next publish."""

    def __init__(self, when: str, happens: Callable[[Deadline], object]) -> None:
        self._when, self._happens = when, happens

    def _is_at(self, when: str, deadline: Deadline) -> None:
        if self._when == when:
            self._when = ""
            self._happens(deadline)

    def __enter__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        publish, ask, send = Link.publish, Connection.ask, Connection._send

        def publishing(link, held, deadline):
            self._is_at("before", deadline)
            publish(link, held, deadline)

        def asking(connection, op, fields, deadline, *given):
            if op == "publish":
                self._is_at("begun", deadline)
            reply = ask(connection, op, fields, deadline, *given)
            if op == "publish":
                self._is_at("after", deadline)
            return reply

        def sending(connection, packet, fds, deadline):
            send(connection, packet, fds, deadline)
            if b'"op":"publish"' in packet.replace(b" ", b""):
                self._is_at("sent", deadline)

        self._patch.setattr(Link, "publish", publishing)
        self._patch.setattr(Connection, "ask", asking)
        self._patch.setattr(Connection, "_send", sending)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def cancelled_at(when: str, form: Callable[[], Any]) -> None:
    """Cancels the task of the call at this moment, before the hub can answer it."""

    async def run() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(form())

        def cancel(deadline: Deadline) -> None:
            loop.call_soon_threadsafe(task.cancel)
            until("the call is cancelled", lambda: deadline.cancelled)

        with Step(when, cancel):
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    until("it is stopped", lambda: b") T " in Path(f"/proc/{pid}/stat").read_bytes())
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("when", WHEN)
def test_a_cancelled_put_async_leaves_the_name_to_one_of_the_two(hub, other, when, pinned):
    hub.put("x", numpy.zeros(3), pinned=pinned)
    for _ in range(3):
        cancelled_at(when, lambda: hub.put_async("x", numpy.ones(3), replace=True, pinned=pinned))
        gc.collect()
        assert values(other) in (OLD, NEW)
    until("no other object is left", lambda: objects(other) == 1)
    if when != "begun":
        assert values(other) == (OLD if when == "before" else NEW)


def test_a_put_that_times_out_at_a_stopped_hub_has_the_name_once_the_hub_goes_on(hub, other):
    hub.put("x", numpy.zeros(3))
    pid = int(hub.status()["pid"])

    def stop(deadline: Deadline) -> None:
        undo.enter_context(stopped(pid))
        deadline._at = time.monotonic() + 0.05

    with contextlib.ExitStack() as undo, Step("begun", stop), pytest.raises(TimeoutError):
        put(hub)
    until("the name has passed on", lambda: values(other) == NEW)
    until("the old object has ended", lambda: objects(other) == 1)
    assert values(other) == NEW


def test_a_put_whose_hub_dies_before_the_answer_is_settled_by_the_next_hub(hub, other):
    hub.put("x", numpy.zeros(3))
    pid = int(hub.status()["pid"])

    def stop_and_cancel(deadline: Deadline) -> None:
        os.kill(pid, signal.SIGSTOP)
        deadline.cancel()

    with Step("begun", stop_and_cancel), pytest.raises(cuda_ipc.CudaIpcError, match="cancelled"):
        put(hub)
    gc.collect()
    os.kill(pid, signal.SIGKILL)
    until("the next hub serves", lambda: int(other.status()["pid"]) != pid)
    until("the name has passed on", lambda: values(other) == NEW)
    until("the old object has ended", lambda: objects(other) == 1)
    assert values(other) == NEW


def test_a_publish_that_is_given_up_and_dropped_keeps_the_name(hub, other):
    hub.put("x", numpy.zeros(3))

    def give_up() -> None:
        array = hub.create("x", "float64", 3, replace=True)
        array.write(numpy.ones(3))
        with pytest.raises(cuda_ipc.CudaIpcError, match="cancelled"):
            array.publish()

    pid = int(hub.status()["pid"])
    with contextlib.ExitStack() as undo, Step("sent", lambda deadline: deadline.cancel()):
        # The answer must not come before the call is given up.
        with Step("begun", lambda _: undo.enter_context(stopped(pid))):
            give_up()
    gc.collect()
    until("the name has passed on", lambda: values(other) == NEW)
    until("the old object has ended", lambda: objects(other) == 1)
    assert values(other) == NEW


def test_a_put_that_the_hub_refuses_leaves_nothing(hub, other):
    hub.put("x", numpy.zeros(3))

    def take_over(_: Deadline) -> None:
        other.create_timeline("x", replace="any")

    with Step("before", take_over), pytest.raises(cuda_ipc.CudaIpcError, match="of kind timeline"):
        put(hub)
    assert other.inspect("x")[0].kind == "timeline"
    until("the refused object has ended", lambda: objects(other) == 2)


MAKERS: dict[str, Callable[[cuda_ipc.Hub], Any]] = {
    "channel": lambda hub: hub.create_channel("x", "uint8", 4, replace=True),
    "timeline": lambda hub: hub.create_timeline("x", replace=True),
    "tensor": lambda hub: hub.share("x", numpy.ones(3), copy=True, replace=True),
}
FORMS: dict[str, Callable[[cuda_ipc.Hub], Any]] = {
    "channel": lambda hub: hub.create_channel_async("x", "uint8", 4, replace=True),
    "timeline": lambda hub: hub.create_timeline_async("x", replace=True),
    "tensor": lambda hub: hub.share_async("x", numpy.ones(3), copy=True, replace=True),
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("when", WHEN)
def test_other_kinds_keep_the_name_as_well(hub, other, when, kind):
    number = MAKERS[kind](hub)._held.object
    for _ in range(3):
        cancelled_at(when, lambda: FORMS[kind](hub))
        gc.collect()
        assert other.inspect("x")[0].object >= number
    until("no other object is left", lambda: objects(other) == 1)
    assert (other.inspect("x")[0].object == number) == (when == "before")
    # It works: nobody has closed it.
    if kind == "channel":
        with other.open_channel("x", wait=False, timeout=LIMIT) as reader:
            with pytest.raises(TimeoutError):
                reader.next(0)
    if kind == "timeline":
        with other.open_timeline("x", wait=False) as timeline:
            assert timeline.value == 0


#: What publishes objects. WHY no line with `with`: it runs again at the end of its block, and no
#: signal is handled there before the block is left.
CALLS = ("publish", "_publish", "_published", "ask", "request", "discard", "keep", "given_to")


def in_del(frame: Any) -> bool:
    """Python ignores what is raised there."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Interrupted:
    """Raises KeyboardInterrupt at the nth line of these, as a signal would."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __enter__(self) -> Interrupted:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: object, *_: object) -> bool:
        sys.settrace(self._before)
        return kind is KeyboardInterrupt

    def _trace(self, frame, event, _):
        code = frame.f_code
        is_chosen = code.co_name in (*CALLS, "put")
        if not code.co_filename.startswith(SOURCE):
            return None
        line = linecache.getline(code.co_filename, frame.f_lineno).lstrip()
        is_counted = is_chosen and not line.startswith("with ") and not in_del(frame)
        if event == "line" and is_counted:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.parametrize("kind", ["array", *MAKERS])
def test_an_interruption_at_any_line_leaves_the_name_to_one_of_the_two(hub, other, kind):
    make = MAKERS.get(kind, put)
    make(hub)
    nth = 1
    while True:
        with Interrupted(nth) as interruption:
            make(hub)
        other.inspect("x")
        if interruption.left > 0:
            break
        nth += 1
    assert nth > 30
