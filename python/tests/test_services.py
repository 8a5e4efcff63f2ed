"""Services: workers and clients, with Node on the other side and among processes of Python."""

from __future__ import annotations

import array
import asyncio
import os
import signal
import threading

import pytest
from conftest import LIMIT, code, until, until_times_out

import cuda_ipc

MESSAGE = ("float32", 4)


def floats(*values: float) -> bytes:
    return array.array("f", values).tobytes()


def double(request, reply):
    slot = reply.loan()
    slot.write(floats(*(2 * value for value in request.array.tolist())))
    return {"meta": {"by": "python"}}


def serve(hub, name, handler=double, **options):
    return hub.serve(name, handler, **{"request": MESSAGE, "reply": MESSAGE, **options})


WORKER = (
    "import array\n"
    "def handler(request, reply):\n"
    "    say({'begun': request.json})\n"
    "    if request.json == 'hang': sys.stdin.read()\n"
    "    values = request.array.tolist()\n"
    "    reply.loan().write(array.array('f', [2 * v for v in values]).tobytes())\n"
    "    return {'meta': {'by': 'python'}}\n"
    "service = hub.serve(sys.argv[2], handler, request=('float32', 4), reply=('float32', 4))\n"
    "say('serving'); sys.stdin.readline(); hub.close()\n"
)


# ---------------------------------------------------------------- both languages


def test_a_worker_answers_a_client_of_node(hub, node):
    with serve(hub, "double:py") as service:
        client = node("service", "client", "double:py")
        assert client.said() == "ready"
        for n in range(20):
            client.tell({"values": [n, 1, 2, 3], "meta": {"n": n}})
            assert client.said() == {"values": [2 * n, 2, 4, 6], "meta": {"by": "python"}}
        # A handler runs until its reply, which the client has by then, is counted.
        until("no handler runs", lambda: service.running == 0)
        assert (service.answered, service.clients, service.waiting) == (20, 1, 0)
        client.finish()
        until("the client has left", lambda: service.clients == 0)


def test_a_worker_of_node_answers_a_client(hub, node):
    worker = node("service", "worker", "double:node")
    assert worker.said() == "serving"
    with hub.connect_service("double:node") as client:
        for n in range(20):
            with client.request(floats(n, 1, 2, 3), meta={"n": n}) as reply:
                assert (reply.array.tolist(), reply.json) == ([2 * n, 2, 4, 6], {"by": "node"})
                assert (reply.shape, reply.byte_length, reply.closed) == ((4,), 16, False)
            assert reply.closed
            assert worker.said() == {"begun": {"n": n}}
        assert (client.workers, client.waiting, client.retried) == (1, 0, 0)
    worker.tell()
    worker.finish()


def test_the_errors_of_a_handler_reach_the_client_in_both_directions(hub, node):
    def fails(request, reply):
        if request.json == "ours":
            raise cuda_ipc.CudaIpcError("OUT_OF_MEMORY", "Cannot make 1 byte")
        raise ValueError("x" * 5000)

    with serve(hub, "fails:py", fails):
        client = node("service", "client", "fails:py")
        assert client.said() == "ready"
        client.tell({"values": [1, 1, 1, 1], "meta": "ours"})
        said = client.said()
        assert said["code"] == "REQUEST_FAILED"
        assert "OUT_OF_MEMORY: Cannot make 1 byte" in said["message"]
        client.tell({"values": [1, 1, 1, 1]})
        assert "ValueError: xxx" in client.said()["message"]
        client.finish()
    worker = node("service", "worker", "fails:node")
    assert worker.said() == "serving"
    with hub.connect_service("fails:node") as client:
        with pytest.raises(cuda_ipc.CudaIpcError, match="RangeError: no such thing") as caught:
            client.request(floats(1, 1, 1, 1), meta={"fail": True})
        assert caught.value.code == "REQUEST_FAILED"


def test_a_request_that_is_late_is_cancelled_at_the_worker_of_node(hub, node, patient_explanations):
    worker = node("service", "worker", "late:node")
    assert worker.said() == "serving"
    with hub.connect_service("late:node") as client:
        client.request(floats(1, 1, 1, 1)).release()  # it has found its worker
        assert worker.said() == {"begun": None}
        with pytest.raises(TimeoutError, match=r"its worker \(process .*\) has not answered"):
            client.request(floats(1, 1, 1, 1), meta={"never": True}, timeout=6)
        assert worker.said() == {"begun": {"never": True}}
        assert worker.said()["ended"] in ("ABORTED", "TIMEOUT")
        with client.request(floats(1, 1, 1, 1)) as reply:  # the link goes on
            assert reply.array.tolist() == [2, 2, 2, 2]


def test_a_client_of_node_that_gives_up_ends_the_wait_of_the_handler(hub, node):
    codes = []

    def handler(request, reply):
        if request.json == "warm":
            return
        until("nobody waits", lambda: request.given_up is not None)
        codes.append(request.given_up.code)
        request.check()

    with serve(hub, "gives-up", handler):
        client = node("service", "client", "gives-up")
        assert client.said() == "ready"
        client.tell({"meta": "warm"})  # it has found its worker
        assert client.said()["values"] == []
        client.tell({"values": [1, 1, 1, 1], "timeoutMs": 6000})
        assert client.said()["code"] == "TIMEOUT"
        until("the handler has ended", lambda: codes)
        assert codes[0] in ("ABORTED", "TIMEOUT")
        client.finish()


def test_the_deadline_of_a_client_that_was_stopped_passes_at_the_worker(hub, python):
    codes = []

    def handler(request, reply):
        if request.json != "stop":
            return
        os.kill(client.child.pid, signal.SIGSTOP)
        until("its deadline has passed", lambda: request.given_up is not None)
        codes.append(request.given_up.code)
        os.kill(client.child.pid, signal.SIGCONT)

    with serve(hub, "stopped", handler):
        client = python(
            "client = hub.connect_service(sys.argv[2])\n"
            "client.request(meta='go').release(); say('ready')\n"
            "try: client.request(meta='stop', timeout=6)\n"
            "except TimeoutError as late: say(late.code)\n"
            "client.close(); hub.close()\n",
            "stopped",
        )
        assert client.said() == "ready"
        assert client.said() == "TIMEOUT"
        assert codes == ["TIMEOUT"]
        client.finish()


# ---------------------------------------------------------------- deaths


def test_a_request_goes_to_another_worker_if_the_first_dies(hub, python, node):
    first = python(WORKER, "dies")
    assert first.said() == "serving"
    with hub.connect_service("dies") as client:
        outcome = []

        def ask():
            with client.request(floats(1, 2, 3, 4), meta="hang") as reply:
                outcome.append((reply.array.tolist(), reply.json))

        asking = threading.Thread(target=ask)
        asking.start()
        assert first.said() == {"begun": "hang"}
        second = node("service", "worker", "dies")
        assert second.said() == "serving"
        first.kill()
        asking.join(LIMIT)
        assert outcome == [([2, 4, 6, 8], {"by": "node"})]
        assert client.retried == 1


def test_with_policy_fail_a_dead_worker_is_peer_gone(hub, python):
    worker = python(WORKER, "dies:once")
    assert worker.said() == "serving"
    with hub.connect_service("dies:once", policy="fail") as client:
        codes = []
        asking = threading.Thread(
            target=lambda: codes.append(
                code(lambda: client.request(floats(0, 0, 0, 0), meta="hang"))
            )
        )
        asking.start()
        assert worker.said() == {"begun": "hang"}
        worker.kill()
        asking.join(LIMIT)
        assert codes == ["PEER_GONE"]


def test_a_worker_serves_the_next_client_after_one_was_killed(hub, node):
    with serve(hub, "killed-client") as service:
        first = node("service", "client", "killed-client")
        assert first.said() == "ready"
        first.tell({"values": [1, 1, 1, 1]})
        assert first.said()["values"] == [2, 2, 2, 2]
        first.kill()
        until("its link has ended", lambda: service.clients == 0)
        with hub.connect_service("killed-client") as client:
            client.request(floats(1, 2, 3, 4)).release()


def test_a_worker_that_is_closed_refuses_what_it_has_not_begun(hub):
    begun, go_on = threading.Event(), threading.Event()

    def slow(request, reply):
        begun.set()
        go_on.wait(LIMIT)
        return double(request, reply)

    first = serve(hub, "closes", slow, depth=4)
    with hub.connect_service("closes") as client:
        outcomes = []

        def ask():
            with client.request(floats(1, 1, 1, 1)) as reply:
                outcomes.append(reply.array.tolist())

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        assert begun.wait(LIMIT)
        until("two wait", lambda: first.waiting == 2)
        closing = threading.Thread(target=first.close)
        closing.start()
        until("two were refused", lambda: client.waiting == 2)
        with serve(hub, "closes"):  # the next worker takes them
            go_on.set()
            for thread in [*asking, closing]:
                thread.join(LIMIT)
        assert outcomes == [[2, 2, 2, 2]] * 3
        assert client.retried == 0


def test_a_request_that_outlives_its_worker_is_abandoned(hub):
    begun, go_on = threading.Event(), threading.Event()
    given_up = []

    def stuck(request, reply):
        begun.set()
        go_on.wait(LIMIT)
        given_up.append(request.given_up)

    service = serve(hub, "stuck", stuck)
    with hub.connect_service("stuck", policy="fail") as client:
        codes = []
        asking = threading.Thread(
            target=lambda: codes.append(code(lambda: client.request(floats(0, 0, 0, 0))))
        )
        asking.start()
        assert begun.wait(LIMIT)
        service.close(timeout=0)
        asking.join(LIMIT)
        assert codes == ["PEER_GONE"]
        go_on.set()
        until("the handler has seen it", lambda: given_up)
        assert given_up[0].code == "CLOSED"


# ---------------------------------------------------------------- one process


def test_meta_alone_needs_no_data(hub):
    with serve(hub, "meta", lambda request, reply: {"meta": request.json + 1}, reply=None):
        with hub.connect_service("meta") as client:
            with client.request(meta=41) as reply:
                assert (reply.json, reply.byte_length, reply.meta) == (42, 0, b"42")
            with pytest.raises(TypeError):
                client.request(shape=4)


def test_a_function_fills_the_request_and_its_error_is_raised(hub):
    with serve(hub, "fill"), hub.connect_service("fill") as client:

        def fill(slot):
            slot.data[:] = floats(1, 2, 3, 4)

        with client.request(fill) as reply:
            assert reply.array.tolist() == [2, 4, 6, 8]

        def broken(slot):
            raise LookupError("nothing to fill it with")

        with pytest.raises(LookupError):
            client.request(broken)
        assert code(lambda: client.request(bytes(17))) == "MESSAGE_TOO_LARGE"
        assert code(lambda: client.request(meta="x" * 300)) == "MESSAGE_TOO_LARGE"
        with client.request(floats(5, 5, 5, 5)) as reply:  # the slot was given back
            assert reply.array.tolist() == [10, 10, 10, 10]


def test_short_messages_have_their_own_shape(hub):
    def echo(request, reply):
        reply.loan().write(request.data)
        return {"shape": request.shape}

    with serve(hub, "short", echo), hub.connect_service("short") as client:
        with client.request(floats(1, 2)) as reply:
            assert (reply.shape, reply.array.tolist()) == ((2,), [1, 2])
        with client.request(floats(1, 2), shape=(1, 2)) as reply:
            assert reply.shape == (1, 2)


def test_many_threads_share_a_client_and_a_worker(hub):
    running, most = [], []
    lock = threading.Lock()

    def handler(request, reply):
        with lock:
            running.append(1)
            most.append(len(running))
        result = double(request, reply)
        with lock:
            running.pop()
        return result

    with serve(hub, "threads", handler, concurrency=4), hub.connect_service("threads") as client:
        wrong = []

        def ask(seed):
            for n in range(50):
                with client.request(floats(seed, n, 0, 0)) as reply:
                    if reply.array.tolist() != [2 * seed, 2 * n, 0, 0]:
                        wrong.append((seed, n))

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert wrong == []
        assert max(most) <= 4


def test_replies_that_are_held_stall_new_requests_until_they_are_released(hub):
    with serve(hub, "held", depth=1), hub.connect_service("held") as client:
        held = [client.request(floats(n, 0, 0, 0)) for n in range(2)]
        with pytest.raises(TimeoutError, match="not released"):
            client.request(floats(9, 0, 0, 0), timeout=0.1)
        assert [reply.array.tolist()[0] for reply in held] == [0, 2]
        for reply in held:
            reply.release()
        client.request(floats(3, 0, 0, 0)).release()


def test_replies_that_are_held_outlive_their_worker(hub):
    service = serve(hub, "outlives", depth=4)
    with hub.connect_service("outlives") as client:
        first, second = (client.request(floats(n, 2, 3, 4)) for n in range(2))
        service.close()
        until("the link has ended", lambda: client.workers == 0)
        assert first.array.tolist() == [0, 4, 6, 8]
        first.release()
        assert code(lambda: first.array) == "CLOSED"
        done = threading.Event()
        client._receiver.call(done.set)  # its thread closes what is to be closed
        assert done.wait(LIMIT)
        assert second.array.tolist() == [2, 4, 6, 8]
        second.release()
        until("its channel is closed", lambda: hub.list(prefix="outlives") == [])


def test_no_worker_is_a_timeout_that_says_so(hub):
    with hub.connect_service("nobody") as client:
        with pytest.raises(TimeoutError, match="no worker was found"):
            client.request(meta=1, timeout=0.1)
    with serve(hub, "taken", clients_max=1), hub.connect_service("taken") as first:
        first.request(floats(0, 0, 0, 0)).release()
        with hub.connect_service("taken") as second:
            until_times_out(
                "READERS_FULL", lambda limit: second.request(floats(0, 0, 0, 0), timeout=limit)
            )


def test_a_closed_client_and_a_closed_hub_say_so(hub, socket):
    client = hub.connect_service("closed")
    client.close()
    client.close()
    assert code(lambda: client.request(meta=1)) == "CLOSED"
    with cuda_ipc.connect(socket) as other:
        service = serve(other, "closed:hub")
        left = other.connect_service("closed:hub")
        left.request(floats(0, 0, 0, 0)).release()
    assert service.closed and left.closed
    assert code(lambda: left.request(floats(0, 0, 0, 0))) == "CLOSED"
    assert all(not info.name.startswith("closed:hub") for info in hub.list())


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 0},
        {"concurrency": 0},
        {"clients_max": 0},
        {"meta_bytes_max": -1},
        {"claim_timeout": 0},
        {"request": "float32"},
        {"request": ("float31", 4)},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(hub, options):
    with pytest.raises((TypeError, ValueError, cuda_ipc.CudaIpcError)):
        serve(hub, "wrong", **options)
    with pytest.raises(ValueError):
        hub.connect_service("wrong", policy="hope")
    with pytest.raises(TypeError):
        hub.serve("wrong", None, request=MESSAGE)
    assert code(lambda: serve(hub, "x" * 200)) == "INVALID_NAME"
    assert [info.name for info in hub.list(prefix="wrong")] == []


def test_coroutine_functions_are_refused_where_nobody_awaits_them(hub):
    async def coroutine(*_):
        pass

    with pytest.raises(TypeError, match="use serve_async"):
        serve(hub, "wrong:kind", coroutine)
    with pytest.raises(TypeError, match=r"use serve\(\)"):
        asyncio.run(hub.serve_async("wrong:kind", double, request=MESSAGE))
    with hub.connect_service("wrong:kind") as client, pytest.raises(TypeError, match="coroutine"):
        client.request(coroutine)
    with serve(hub, "right:kind"), hub.connect_service("right:kind") as client:
        with pytest.raises(TypeError, match="coroutine"):
            client.request(lambda slot: coroutine(slot))
        with pytest.raises(TypeError, match="not list; numpy"):
            client.request([1, 2])
        client.request(floats(1, 2, 3, 4)).release()


def test_a_handler_whose_error_has_no_text_fails_its_request(hub):
    class Speechless(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def handler(request, reply):
        raise Speechless

    with hub.serve("speechless", handler, request=("uint8", 1)) as service:
        with hub.connect_service("speechless") as client:
            with pytest.raises(
                cuda_ipc.CudaIpcError, match="Speechless: its text cannot"
            ) as caught:
                client.request(timeout=LIMIT)
            assert caught.value.code == "REQUEST_FAILED"
            until("the handler has ended", lambda: service.running == 0)


def test_a_handler_that_returns_nonsense_fails_its_request(hub):
    with serve(hub, "nonsense", lambda *_: {"metta": 1}), hub.connect_service("nonsense") as client:
        with pytest.raises(cuda_ipc.CudaIpcError, match="metta"):
            client.request(floats(0, 0, 0, 0))
    with serve(hub, "list", lambda *_: [1]), hub.connect_service("list") as client:
        with pytest.raises(cuda_ipc.CudaIpcError, match="TypeError: a handler returns None, or a"):
            client.request(floats(0, 0, 0, 0))
    with serve(hub, "huge", lambda *_: {"meta": "x" * 5000}), hub.connect_service("huge") as client:
        with pytest.raises(cuda_ipc.CudaIpcError, match="MESSAGE_TOO_LARGE"):
            client.request(floats(0, 0, 0, 0))


# ---------------------------------------------------------------- asyncio


def test_handlers_and_requests_as_tasks(hub, node):
    async def main():
        async def handler(request, reply):
            await asyncio.sleep(0)
            (await reply.loan_async()).write(request.data)
            return {"meta": {"by": "asyncio"}}

        options = {"request": MESSAGE, "reply": MESSAGE, "concurrency": 3}
        async with await hub.serve_async("tasks", handler, **options):
            async with hub.connect_service("tasks") as client:

                async def ask(n):
                    with await client.request_async(floats(n, 0, 0, 0)) as reply:
                        return reply.array.tolist()[0], reply.json

                replies = await asyncio.gather(*(ask(n) for n in range(30)))
                assert replies == [(n, {"by": "asyncio"}) for n in range(30)]
            other = node("service", "client", "tasks")
            assert await asyncio.to_thread(other.said) == "ready"
            other.tell({"values": [1, 2, 3, 4]})
            assert (await asyncio.to_thread(other.said))["values"] == [1, 2, 3, 4]
            await asyncio.to_thread(other.finish)

    asyncio.run(main())


def test_a_cancelled_request_cancels_the_task_of_its_handler(hub):
    async def main():
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(request, reply):
            begun.set()
            try:
                await asyncio.sleep(LIMIT)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with await hub.serve_async("cancels", handler, request=MESSAGE):
            async with hub.connect_service("cancels") as client:
                task = asyncio.ensure_future(client.request_async(meta=1))
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(cancelled.wait(), LIMIT)

    asyncio.run(main())


def test_a_reply_takes_as_much_meta_as_meta_bytes_max_says(hub):
    sizes = iter((0, 8, 9))
    reply = lambda *_: {"meta": bytes(next(sizes))}  # noqa: E731
    with (
        hub.serve("meta", reply, request=MESSAGE, meta_bytes_max=8),
        hub.connect_service("meta") as client,
    ):
        for _ in range(2):
            client.request(None).release()
        with pytest.raises(cuda_ipc.CudaIpcError, match="9 bytes") as refused:
            client.request(None)
        assert refused.value.code == "REQUEST_FAILED"
