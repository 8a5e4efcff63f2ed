"""Services while something goes wrong: late tasks, odd peers, a hub that stands still."""

from __future__ import annotations

import asyncio
import os
import socket as sockets
import threading
import time

import pytest
from conftest import LIMIT, code, ends_while_stopped, until

import cuda_ipc
from cuda_ipc._service.envelope import HELLO, encode_envelope

MESSAGE = ("float32", 4)

pytestmark = pytest.mark.usefixtures("ends_in_time")


def test_a_request_that_is_given_up_before_its_task_begins_frees_the_handler(hub):
    async def main():
        async def handler(request, reply):
            return {"meta": request.json}

        async with await hub.serve_async("late-task", handler, request=MESSAGE) as service:
            with hub.connect_service("late-task") as client:

                def give_up():
                    assert code(lambda: client.request(meta=1, timeout=0.2)) == "TIMEOUT"

                # The event loop stands still meanwhile.
                late = threading.Thread(target=give_up)
                late.start()
                late.join(LIMIT)
                with await client.request_async(meta=2, timeout=LIMIT / 4) as reply:
                    assert reply.json == 2
            assert service.running == 0

    asyncio.run(main())


def test_a_deadline_in_a_hundred_years_ends_no_worker(hub, node):
    with hub.serve("far-deadline", lambda request, reply: None, request=MESSAGE):
        peer = node("service", "client", "far-deadline")
        assert peer.said() == "ready"
        peer.tell({"values": [1, 2, 3, 4], "timeoutMs": 100 * 365 * 86400 * 1000})
        assert peer.said() == {"values": [], "meta": None}
        with hub.connect_service("far-deadline") as client:
            client.request(meta=1, timeout=LIMIT / 4).release()


@pytest.mark.parametrize(
    "request_",
    [
        {"dtype": [], "shape": [4], "metaBytesMax": 64},
        {"dtype": {}, "shape": [4], "metaBytesMax": 64},
        {"dtype": "float32", "shape": [2**53 - 1] * 8, "metaBytesMax": 64},
        {"dtype": "float32", "shape": [2**53 - 1], "metaBytesMax": 64},
        {"dtype": "float32", "shape": [0], "metaBytesMax": 65536},
    ],
)
def test_a_hello_without_sense_does_not_end_the_search(hub, request_):
    name = "hello"
    with hub.create_channel(f"{name}:w1:0", "uint8", 1, slots=4, readers_max=1) as offer:
        hello = {"v": 1, "depth": 2, "request": request_}
        offer.loan()._commit(encode_envelope(offer.name, HELLO, 0, hello, 256), None, 0, None)
        with hub.connect_service(name) as client:
            assert code(lambda: client.request(meta=1, timeout=0.5)) == "TIMEOUT"
            with hub.serve(name, lambda request, reply: None, request=MESSAGE):
                client.request(meta=1, timeout=LIMIT / 4).release()


@pytest.mark.parametrize("named", [False, True])
def test_an_error_of_a_newer_bridge_does_not_end_the_search(
    hub, socket, tmp_path, monkeypatch, named
):
    path = f"{socket}.bridge"
    if named:
        path = str(tmp_path / "bridge.sock")
        monkeypatch.setenv("CUDA_IPC_BRIDGE_SOCKET", path)
    asked = []
    bridge = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
    bridge.bind(path)
    bridge.listen(8)
    bridge.settimeout(LIMIT)

    def answer():
        try:
            while True:
                client, _ = bridge.accept()
                with client:
                    asked.append(client.recv(65536))
                    client.send(b'{"ok": false, "error": {"code": "OF_TOMORROW", "message": "x"}}')
        except OSError:
            pass

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with hub.connect_service("from-afar", machine="any") as client:
            assert code(lambda: client.request(meta=1, timeout=0.5)) == "TIMEOUT"
            with hub.serve("from-afar", lambda request, reply: None, request=MESSAGE):
                client.request(meta=1, timeout=LIMIT / 4).release()
        assert b'"from-afar"' in asked[0]
    finally:
        bridge.shutdown(sockets.SHUT_RDWR)
        bridge.close()
        thread.join(LIMIT)
        os.unlink(path)


def test_a_client_closes_while_the_hub_stands_still(own_hub):
    hub = cuda_ipc.connect(own_hub.socket)
    pid = hub.status()["pid"]
    client = hub.connect_service("nobody")
    found = []

    def close():
        found.append(code(lambda: client.request(meta=1, timeout=0.3)))
        client.close()

    assert ends_while_stopped(pid, close)
    hub.close()
    assert found == ["TIMEOUT"]


def test_a_worker_closes_while_the_hub_stands_still(own_hub):
    hub = cuda_ipc.connect(own_hub.socket)
    pid = hub.status()["pid"]
    service = hub.serve("w", lambda a, b: None, request=MESSAGE, claim_timeout=0.2)

    def close():
        time.sleep(1)  # the claim is over, and the worker asks who has it
        service.close()

    assert ends_while_stopped(pid, close)
    hub.close()


def test_the_close_of_a_service_keeps_its_limit_while_its_next_offer_is_made(hub, monkeypatch):
    service = hub.serve("offers-late", lambda request, reply: None, request=MESSAGE)
    begun, free = threading.Event(), threading.Event()
    make = service._offers._make

    def make_late(limit):
        begun.set()
        free.wait(LIMIT)
        return make(limit)

    # As a driver's call that waits for a stream.
    monkeypatch.setattr(service._offers, "_make", make_late)
    late = threading.Timer(LIMIT / 2, free.set)
    late.start()
    with hub.connect_service("offers-late") as client:
        client.request(meta=1).release()
        assert begun.wait(LIMIT)
        for _ in range(2):
            with pytest.raises(cuda_ipc.CudaIpcTimeout, match="next offer is still being made"):
                service.close(0.05)
            assert not free.is_set()
        late.cancel()
        free.set()
        service.close(LIMIT)
    until("nothing of it is left", lambda: len(hub.list(prefix="offers-late")) == 0)


def test_the_second_close_of_a_service_keeps_its_limit(hub):
    begun, free = threading.Event(), threading.Event()

    def handler(request, reply):
        begun.set()
        free.wait(LIMIT)

    service = hub.serve("closes-twice", handler, request=MESSAGE)
    with hub.connect_service("closes-twice") as client:
        asks = threading.Thread(target=lambda: client.request(meta=1).release())
        asks.start()
        assert begun.wait(LIMIT)
        first = threading.Thread(target=service.close, args=(None,))
        first.start()
        until("it closes", lambda: service.closed)
        found = []
        second = threading.Thread(target=lambda: found.append(code(lambda: service.close(0.1))))
        second.start()
        second.join(LIMIT / 2)
        was_late = second.is_alive()
        free.set()
        for thread in (first, second, asks):
            thread.join(LIMIT)
    assert not was_late
    assert found == ["TIMEOUT"]


def test_a_handler_that_hears_of_the_end_at_once_leaves_its_request_abandoned(hub, monkeypatch):
    begun = threading.Event()

    def handler(request, reply):
        begun.set()
        while request.given_up is None:
            time.sleep(0.001)
        request.check()

    service = hub.serve("hears", handler, request=MESSAGE)
    give_up = service._give_up

    def give_up_slowly(link, request, *why):
        give_up(link, request, *why)
        until("it is answered", lambda: request.number not in link._under_way)

    with hub.connect_service("hears", policy="fail") as client:
        found = []
        asks = threading.Thread(target=lambda: found.append(code(lambda: client.request(meta=1))))
        asks.start()
        assert begun.wait(LIMIT)
        monkeypatch.setattr(service, "_give_up", give_up_slowly)
        service.close(0.1)
        asks.join(LIMIT)
    assert found == ["PEER_GONE"]


def test_a_cancelled_request_of_a_client_that_was_closed_is_cancelled(hub):
    async def main():
        begun = asyncio.Event()

        async def handler(request, reply):
            begun.set()
            await asyncio.sleep(LIMIT)

        async with await hub.serve_async("both", handler, request=MESSAGE) as service:
            client = hub.connect_service("both")
            task = asyncio.ensure_future(client.request_async(meta=1))
            await begun.wait()
            client.close()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            other = hub.connect_service("nobody")
            task = asyncio.ensure_future(other.request_async(meta=1))
            await asyncio.sleep(0)
            other.close()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await service.close_async(0)

    asyncio.run(main())


def _running(service):
    return getattr(service, "running", 0)


def test_a_cancelled_serve_ends_what_its_event_loop_has_to_finish(hub):
    async def main():
        begun = threading.Event()

        async def handler(request, reply):
            begun.set()
            await asyncio.sleep(0)
            return {"meta": 1}

        with hub.connect_service("undone") as client:
            found = []

            def ask():
                try:
                    client.request(meta=1, timeout=10).release()
                    found.append("reply")
                except cuda_ipc.CudaIpcError as wrong:
                    found.append(wrong.code)

            asks = threading.Thread(target=ask)
            asks.start()
            task = asyncio.ensure_future(hub.serve_async("undone", handler, request=MESSAGE))
            await asyncio.sleep(0)
            # The event loop stands still until the worker has the request.
            until("the worker has it", lambda: any(_running(one) for one in list(hub._services)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while asks.is_alive():
                await asyncio.sleep(0.01)
            assert found == ["reply"]

    asyncio.run(main())


@pytest.mark.parametrize("begins", [True, False])
def test_a_signal_or_a_lack_of_threads_in_serve_leaves_no_worker(socket, monkeypatch, begins):
    hub = cuda_ipc.connect(socket)
    start = threading.Thread.start

    def interrupted(self):
        if not self.name.startswith("cuda-ipc offers"):
            start(self)
        elif begins:
            start(self)
            raise KeyboardInterrupt
        else:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt if begins else RuntimeError):
            hub.serve("half-served", lambda request, reply: None, request=MESSAGE)
    left = [info.name for info in hub.list(prefix="half-served")]
    hub.close()
    assert left == []
