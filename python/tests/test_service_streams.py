"""Services in the order of streams: on a GPU, or on the libcuda of the tests that is in C."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from conftest import HERE, LIMIT, code, until
from test_cuda import why_not
from test_stream_ends import FAILING, in_c
from test_streams import SIZE, Named, gate, new_stream, own, stream

import cuda_ipc

__all__ = ["gate", "new_stream", "own", "stream"]  # fixtures

pytestmark = [
    pytest.mark.skipif(why_not() != "", reason=why_not()),
    pytest.mark.usefixtures("ends_in_time"),
]

MESSAGE = ("uint8", SIZE)


def filled(value: int) -> bytes:
    return bytes([value]) * SIZE


def fill(slot, by, value: int) -> None:
    from gpu_streams import address_of

    by.fill(address_of(slot.array), value, SIZE)


def copy(to, source, by) -> None:
    """From a message or to a slot, or to memory of the test."""
    from gpu_streams import address_of

    by.copy(getattr(to, "address", None) or address_of(to.array), address_of(source.array), SIZE)


def echo(by, before: Callable = lambda request: None):
    """A handler that copies the request to the reply, by a stream."""

    def handler(request, reply):
        slot = reply.loan()
        before(request)
        copy(slot, request, by)
        return {"meta": request.json}

    return handler


def serve(hub, name, handler, **options):
    options = {"request": MESSAGE, "reply": MESSAGE, "device": "cuda:0", **options}
    return hub.serve(name, handler, **options)


def done(*streams) -> None:
    """The libcuda in C does the work of a stream when it is asked about that one."""
    until(
        "the streams are done", lambda: [one.is_idle() for one in streams] == [True] * len(streams)
    )


class Asking:
    """A request on a thread of its own."""

    def __init__(self, client, *arguments, **options) -> None:
        self.outcome: list = []
        self._thread = threading.Thread(target=self._ask, args=(client, arguments, options))
        self._thread.start()

    def _ask(self, client, arguments, options) -> None:
        try:
            self.outcome.append(client.request(*arguments, **options))
        except BaseException as failure:
            self.outcome.append(failure)

    def result(self):
        self._thread.join(LIMIT)
        (found,) = self.outcome
        if isinstance(found, BaseException):
            raise found
        return found


# ---------------------------------------------------------------- the worker's stream


def test_a_reply_is_sent_once_the_worker_s_stream_has_written_it(hub, gate, stream):
    slow = lambda request: request.json == "slow" and stream.wait(gate)  # noqa: E731
    with (
        serve(hub, "late", echo(stream, slow), stream=stream) as service,
        hub.connect_service("late") as client,
        gate,
    ):
        client.request(filled(1), meta="go").release()
        asking = Asking(client, filled(7), meta="slow", timeout=LIMIT)
        until("the handler has returned", lambda: service.answered == 2)
        assert asking.outcome == [], "nobody has waited for the GPU, and the reply is not ready"
        gate.open()
        done(stream)
        with asking.result() as reply:
            assert reply.ready and reply.array.tobytes() == filled(7)


def test_a_request_s_slot_is_given_back_in_the_order_of_the_worker_s_stream(hub, gate, new_stream):
    working, asking = new_stream(), new_stream()
    slow = lambda request: request.json == "slow" and working.wait(gate)  # noqa: E731
    with (
        serve(hub, "held", echo(working, slow), stream=working, depth=1),
        hub.connect_service("held", stream=asking) as client,
        gate,
    ):
        client.request(filled(1), meta="slow").release()
        client.request(filled(2)).release()
        with pytest.raises(TimeoutError, match="streams of its worker still use the next slot"):
            client.request(filled(3), timeout=0.05)
        # A stream waits instead of the CPU.
        client.request(lambda slot: fill(slot, asking, 4)).release()
        gate.open()
        done(working, asking)
        client.request(filled(5), timeout=LIMIT).release()
        done(working, asking)


def test_a_handler_that_writes_by_the_cpu_does_not_overtake_the_client_s_stream(
    hub, gate, new_stream, own
):
    working, reading = new_stream(), new_stream()

    written = threading.Event()

    def handler(request, reply):
        slot = reply.loan()
        slot.write(filled(request.json))
        if request.json == 3:
            written.set()

    with (
        serve(hub, "by-cpu", handler, stream=working, depth=1) as service,
        hub.connect_service("by-cpu", stream=reading) as client,
        gate,
    ):
        client.request(meta=9).release()  # it has found its worker
        with client.request(meta=1) as reply:
            reading.wait(gate)
            copy(own, reply, reading)
        client.request(meta=2).release()
        asking = Asking(client, meta=3, timeout=LIMIT)
        until("the handler wants the slot of reply 1", lambda: service.running == 1)
        assert not written.wait(0.1)
        gate.open()
        done(working, reading)
        asking.result().release()
        assert own.content() == filled(1)


def test_a_failure_needs_no_slot_but_that_which_the_handler_loaned(hub, stream):
    """A slot that was passed over is a message that the client has not reckoned with."""

    def handler(request, reply):
        slot = reply.loan()
        fill(slot, stream, 7)
        if request.json == "fail":
            raise LookupError("no such thing")

    with (
        serve(hub, "fails", handler, stream=stream, depth=1),
        hub.connect_service("fails") as client,
    ):
        held = client.request(meta=1)
        with pytest.raises(cuda_ipc.CudaIpcError, match="LookupError: no such thing") as failed:
            client.request(meta="fail", timeout=LIMIT / 4)
        assert failed.value.code == "REQUEST_FAILED"
        assert held.array.tobytes() == filled(7)
        held.release()
        client.request(meta=2).release()


def test_replies_without_data_come_in_the_order_of_the_worker_s_stream_too(hub, gate, stream):
    def handler(request, reply):
        if request.json == "slow":
            stream.wait(gate)
        return {"meta": "done"}

    with (
        serve(hub, "meta", handler, stream=stream) as service,
        hub.connect_service("meta") as client,
        gate,
    ):
        client.request().release()
        asking = Asking(client, meta="slow", timeout=LIMIT)
        until("the handler has returned", lambda: service.answered == 2)
        assert asking.outcome == []
        gate.open()
        done(stream)
        assert asking.result().json == "done"


def test_a_stream_orders_requests_and_replies_in_host_memory_too(hub, gate, new_stream):
    working, asking = new_stream(), new_stream()

    def handler(request, reply):
        slot = reply.loan()
        if request.json == "slow":
            working.wait(gate)
        slot.write(request.data)

    with (
        serve(hub, "host", handler, stream=working, device="host") as service,
        hub.connect_service("host") as client,
        hub.connect_service("host", stream=asking) as other,
        gate,
    ):
        with other.request(filled(2)) as reply:
            assert reply.data == filled(2)
        late = Asking(client, filled(1), meta="slow", timeout=LIMIT)
        until("the handler has returned", lambda: service.answered == 2)
        assert late.outcome == []
        gate.open()
        done(working, asking)
        with late.result() as reply:
            assert reply.data == filled(1)


def test_a_handler_may_name_another_stream_for_a_reply_and_for_a_request(hub, gate, new_stream):
    usual, other = new_stream(), new_stream()

    def handler(request, reply):
        slot = reply.loan()
        other.wait(gate)
        copy(slot, request, other)
        request.release(stream=other)
        return {"stream": other}

    with (
        serve(hub, "other", handler, stream=usual) as service,
        hub.connect_service("other") as client,
        gate,
    ):
        asking = Asking(client, filled(3), timeout=LIMIT)
        until("the handler has returned", lambda: service.answered == 1)
        assert asking.outcome == [] and usual.is_idle()
        gate.open()
        done(other)
        with asking.result() as reply:
            assert reply.array.tobytes() == filled(3)


# ---------------------------------------------------------------- the client's stream


def test_a_request_is_handled_before_its_data_which_the_worker_s_stream_waits_for(
    hub, gate, new_stream, own
):
    working, asking = new_stream(), new_stream()
    seen = []
    note = lambda request: seen.append(request.ready)  # noqa: E731
    with (
        serve(hub, "early", echo(working, note), stream=working),
        hub.connect_service("early", stream=asking) as client,
        gate,
    ):

        def late(slot):
            asking.wait(gate)
            fill(slot, asking, 5)

        with client.request(late, timeout=LIMIT) as reply:
            assert not reply.ready
            copy(own, reply, asking)
        assert seen == [False] and not working.is_idle()
        gate.open()
        done(working, asking)
        assert reply.ready, "it can be asked after the release"
        assert own.content() == filled(5)
    assert reply.ready, "and after the client was closed"


def test_a_worker_without_a_stream_gets_a_request_when_its_data_are_there(hub, gate, stream):
    begun = threading.Event()

    def handler(request, reply):
        begun.set()
        return {"meta": request.array.tobytes()[0]}

    with (
        serve(hub, "plain", handler) as service,
        hub.connect_service("plain", stream=stream) as client,
        gate,
    ):
        client.request(filled(1)).release()
        begun.clear()

        def late(slot):
            stream.wait(gate)
            fill(slot, stream, 5)

        asking = Asking(client, late, timeout=LIMIT)
        until("it was sent", lambda: next(iter(client._links)).load == 1)
        assert not begun.wait(0.02)
        gate.open()
        done(stream)
        assert asking.result().json == 5
        assert service.answered == 2


def test_requests_whose_functions_raise_leave_room_for_the_rest(hub, stream):
    def nothing(slot):
        fill(slot, stream, 9)
        raise LookupError

    with (
        serve(hub, "raises", echo(stream), stream=stream),
        hub.connect_service("raises", stream=stream) as client,
    ):
        for value in range(3):
            for _ in range(6):  # more than there are slots
                with pytest.raises(LookupError):
                    client.request(nothing)
            with client.request(lambda slot, v=value: fill(slot, stream, v)) as reply:
                done(stream)
                assert reply.array.tobytes() == filled(value)


def test_a_request_can_be_cancelled_after_others_were_not_filled(hub, stream):
    """Slots that were passed over count, so the cancellation has its slot."""
    begun = threading.Event()
    codes = []

    def handler(request, reply):
        begun.set()
        until("nobody waits", lambda: request.given_up is not None)
        codes.append(request.given_up.code)

    def nothing(slot):
        raise LookupError

    async def main(client):
        task = asyncio.ensure_future(client.request_async(meta=1, timeout=LIMIT))
        await asyncio.to_thread(begun.wait, LIMIT)
        for _ in range(4):
            with pytest.raises((LookupError, TimeoutError)):
                await client.request_async(nothing, timeout=0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(until, "the handler knows", lambda: codes)

    with (
        serve(hub, "cancels", handler, stream=stream, depth=2),
        hub.connect_service("cancels", stream=stream) as client,
    ):
        asyncio.run(main(client))
    assert codes == ["ABORTED"]


# ---------------------------------------------------------------- both languages


def test_a_worker_s_stream_answers_a_stream_of_node(hub, node, stream):
    with serve(hub, "py-worker", echo(stream), stream=stream, depth=2):
        client = node("service_streams", "client", "py-worker")
        assert client.said() == "ready"
        client.tell()
        assert client.said() == {"wrong": 0}
        client.finish()


def test_a_worker_of_node_answers_a_client_s_stream_by_its_own(hub, node, stream, own):
    worker = node("service_streams", "worker", "node-worker")
    assert worker.said() == "serving"
    with hub.connect_service("node-worker", stream=stream) as client:
        for value in range(40):
            with client.request(lambda slot, v=value: fill(slot, stream, v)) as reply:
                assert reply.json == {"by": "node"}
                copy(own, reply, stream)
            if value % 8 == 0:
                done(stream)
                assert own.content() == filled(value) and reply.ready
    worker.tell()
    worker.finish()


# ---------------------------------------------------------------- ends


WORKER = f"""
sys.path.insert(0, {str(HERE)!r})
from gpu_streams import Gate, GpuStream, address_of
gate, stream = Gate(), GpuStream()
def handler(request, reply):
    slot = reply.loan()
    if request.json == "hang":
        stream.wait(gate)
    stream.fill(address_of(slot.array), 7, {SIZE})
message = ("uint8", {SIZE})
service = hub.serve("dies", handler, request=message, reply=message, device="cuda:0", stream=stream)
say("serving")
sys.stdin.readline()
"""


def test_a_worker_that_dies_with_work_in_flight_is_told_by_ready(hub, python, stream, own):
    worker = python(WORKER)
    assert worker.said() == "serving"
    with hub.connect_service("dies", stream=stream) as client:
        with client.request(timeout=LIMIT) as reply:
            copy(own, reply, stream)
        done(stream)
        assert reply.ready and own.content() == filled(7)
        held = client.request(meta="hang", timeout=LIMIT)
        with client.request(meta="hang", timeout=LIMIT) as lost:
            copy(own, lost, stream)
        assert not lost.ready and not held.ready
        worker.kill()
        done(stream)
        assert code(lambda: lost.ready) == "PEER_GONE"
        assert code(lambda: held.ready) == "PEER_GONE"
        held.release()
        until("the link has ended", lambda: not client._links and not client._lingering)
        assert code(lambda: held.ready) == "PEER_GONE"
    assert reply.ready, "it was there in time"


def test_a_client_without_a_stream_asks_another_worker_if_one_dies_with_work_in_flight(
    hub, python, stream
):
    first = python(WORKER)
    assert first.said() == "serving"
    with hub.connect_service("dies") as client:
        client.request().release()
        asking = Asking(client, meta="hang", timeout=LIMIT)
        until("it was sent", lambda: next(iter(client._links)).load == 1)
        with serve(hub, "dies", lambda request, reply: {"meta": "second"}, stream=stream):
            first.kill()
            assert asking.result().json == "second"
        assert client.retried == 1


CLIENT = f"""
client = hub.connect_service("two")
client.request(bytes({SIZE}), meta="slow").release()
"""


def test_the_end_of_one_link_waits_for_streams_and_holds_up_no_other(hub, python, gate, new_stream):
    working, reading = new_stream(), new_stream()
    slow = lambda request: request.json == "slow" and working.wait(gate)  # noqa: E731
    with (
        serve(hub, "two", echo(working, slow), stream=working) as service,
        hub.connect_service("two", stream=reading) as stays,
        gate,
    ):
        stays.request(filled(1)).release()
        dies = python(CLIENT)
        until("its request was handled", lambda: service.answered == 2)
        dies.kill()
        until("its link has ended", lambda: service.clients == 1)
        until("its channels are being closed", lambda: service._closings._under_way)
        by_stream = lambda slot: fill(slot, reading, 1)  # noqa: E731
        for _ in range(8):
            stays.request(by_stream, timeout=LIMIT).release()
        with hub.connect_service("two", stream=reading) as comes:
            comes.request(by_stream, timeout=LIMIT).release()
            assert not working.is_idle() and service._closings._under_way
            gate.open()
        until("its channels are closed", lambda: not service._closings._under_way)


def test_the_close_of_a_client_takes_a_limit_and_ends_when_the_stream_is_done(
    hub, gate, new_stream
):
    working, reading = new_stream(), new_stream()
    wait = lambda request: working.wait(gate)  # noqa: E731
    with serve(hub, "leaves", echo(working, wait), stream=working) as service, gate:
        client = hub.connect_service("leaves", stream=reading)
        reply = client.request(filled(2))
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="a GPU is still at work"):
            client.close(0.01)
        assert client.closed and code(lambda: client.request(meta=1)) == "CLOSED"
        reply.release()  # it does nothing any more
        gate.open()
        client.close(LIMIT)
        assert reply.ready
        until("its link has ended", lambda: service.clients == 0)


def test_the_close_of_a_service_takes_a_limit_and_ends_when_the_stream_is_done(hub, gate, stream):
    wait = lambda request: stream.wait(gate)  # noqa: E731
    service = serve(hub, "closes", echo(stream, wait), stream=stream)
    with hub.connect_service("closes") as client, gate:
        asking = Asking(client, filled(4), timeout=LIMIT)
        until("the handler has returned", lambda: service.answered == 1)
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match='close service "closes" within'):
            service.close(0.05)
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="a GPU is still at work"):
            service.close(0.05)
        assert service.closed and asking.outcome == []
        gate.open()
        service.close(LIMIT)
        with asking.result() as reply:
            assert reply.array.tobytes() == filled(4), "a reply that was sent arrives"


def test_asyncio_handlers_and_requests_take_streams_and_other_tasks_run_meanwhile(
    hub, gate, new_stream, own
):
    working, asking = new_stream(), new_stream()

    async def handler(request, reply):
        slot = await reply.loan_async()
        if request.json == "slow":
            working.wait(gate)
        copy(slot, request, working)

    async def main():
        message = {"request": MESSAGE, "reply": MESSAGE, "device": "cuda:0"}
        service = await hub.serve_async("tasks", handler, stream=working, **message)
        client = hub.connect_service("tasks", stream=asking)
        (await client.request_async(filled(1))).release()
        with await client.request_async(filled(6), meta="slow") as reply:
            assert not reply.ready
            copy(own, reply, asking)
        closing = asyncio.ensure_future(client.close_async(LIMIT))
        ending = asyncio.ensure_future(service.close_async(LIMIT))
        await asyncio.sleep(0.02)
        assert not closing.done() and not ending.done()
        gate.open()
        await closing
        await ending
        done(working, asking)
        assert own.content() == filled(6)

    with gate:
        asyncio.run(main())


def test_wrong_streams_are_refused_where_they_are_given(hub, stream):
    elsewhere = Named(cuda_stream=0, device=Named(index=999))

    def handler(request, reply):
        if request.json == "release":
            request.release(stream="s")
        reply.loan()
        return {"stream": "s" if request.json == "reply" else stream}

    for wrong in ("s", 1.5, object()):
        with pytest.raises(TypeError, match="stream"):
            serve(hub, "wrong", handler, stream=wrong)
        with pytest.raises(TypeError, match="stream"):
            hub.connect_service("wrong", stream=wrong)
    assert code(lambda: serve(hub, "wrong", handler, stream=elsewhere)) == "DEVICE_NOT_FOUND"
    assert code(lambda: hub.connect_service("wrong", stream=elsewhere)) == "DEVICE_NOT_FOUND"
    assert hub.list(prefix="wrong") == []
    with serve(hub, "wrong", handler), hub.connect_service("wrong") as client:
        for where in ("release", "reply"):
            with pytest.raises(cuda_ipc.CudaIpcError, match="TypeError: stream must be"):
                client.request(meta=where)
        with client.request(meta="right") as reply:
            with pytest.raises(TypeError, match="stream"):
                reply.release(stream="s")
            assert not reply.closed, "it can be released again"
            reply.release(stream=stream)
            assert reply.closed


@in_c
def test_a_worker_whose_device_fails_sends_requests_elsewhere_and_ends(hub, python):
    worker = python(
        FAILING
        + f"""
def handler(request, reply):
    if request.json == "fail":
        reply.loan()
        fail_device()
    return {{"meta": "first"}}
message = ("uint8", {SIZE})
service = hub.serve("fails", handler, request=message, reply=message, device="cuda:0",
                    stream=stream)
say("serving")
sys.stdin.readline()
service.close(60)
say([service.closed, service.running])
hub.close()
"""
    )
    assert worker.said() == "serving"
    with hub.connect_service("fails") as client:
        assert client.request(timeout=LIMIT).json == "first"
        asking = Asking(client, meta="fail", timeout=LIMIT)
        until("it takes no more clients", lambda: len(hub.list(prefix="fails")) == 2)
        with serve(hub, "fails", lambda request, reply: {"meta": "second"}):
            worker.tell()
            assert worker.said() == [True, 0]
            worker.finish()
            assert asking.result().json == "second"
