"""The link to the hub: garbage, signals, threads that close, and a hub that stands still."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import socket as sockets
import threading

import pytest
from conftest import LIMIT, code, ends_while_stopped, until

import cuda_ipc
from cuda_ipc import _connection
from cuda_ipc._deadline import Deadline
from cuda_ipc._hub import session

BYTES = {"dtype": "uint8", "shape": 4}

pytestmark = pytest.mark.usefixtures("ends_in_time")


class Cycle:
    """Garbage that holds an array until a collection."""

    def __init__(self, array):
        self.array, self.itself = array, self


def test_a_collection_of_garbage_while_a_reply_is_settled_gives_its_lease_back(hub, monkeypatch):
    hub.put("settled", b"1234", **BYTES)
    garbage = [Cycle(hub.open("settled"))]
    make = _connection.Reply

    def collecting(*fields):
        garbage.clear()
        gc.collect()
        return make(*fields)

    monkeypatch.setattr(_connection, "Reply", collecting)
    hub.open("settled", timeout=LIMIT / 6).close()
    until("it is given back", lambda: hub.inspect("settled")[0].leases == 1)


def test_leases_given_back_while_the_hub_stands_still_reach_it_later(own_hub):
    with cuda_ipc.connect(own_hub.socket) as hub, cuda_ipc.connect(own_hub.socket) as other:
        hub.put("many", b"1234", **BYTES)
        opened = [other.open("many") for _ in range(600)]
        pid = hub.status()["pid"]
        assert ends_while_stopped(pid, lambda: [one.close() for one in opened])
        until("they are given back", lambda: hub.inspect("many")[0].leases == 1)


def test_a_hub_that_is_closed_during_an_open_closes_no_other_descriptor(hub, socket, monkeypatch):
    hub.put("lost", b"1234", **BYTES)
    other = cuda_ipc.connect(socket)
    opened = session.Opened
    files = []

    def late(*fields):
        other.close()
        files.extend(os.memfd_create("of another") for _ in range(8))
        return opened(*fields)

    monkeypatch.setattr(session, "Opened", late)
    try:
        found = code(lambda: other.open("lost"))
        for file in files:
            os.fstat(file)
    finally:
        for file in files:
            try:
                os.close(file)
            except OSError:
                pass
    assert found == "CLOSED"


def test_a_create_that_is_given_up_as_it_succeeds_closes_no_other_descriptor(hub, monkeypatch):
    files, gave_up = [], threading.Event()
    limit = Deadline("create", None)
    settle = _connection.Connection._settle

    def late(self, pending, result, fds):
        if pending.op == "create":
            limit.cancel()
            assert gave_up.wait(LIMIT)
            files.extend(os.memfd_create("of another") for _ in range(8))
        settle(self, pending, result, fds)

    monkeypatch.setattr(_connection.Connection, "_settle", late)
    try:
        assert code(lambda: hub.create("late", **BYTES, timeout=limit)) == "ABORTED"
        gave_up.set()
        until("the reply is settled", lambda: files)
        until("it is given back", lambda: not hub.list(prefix="late"))
        for file in files:
            os.fstat(file)
    finally:
        gave_up.set()
        for file in files:
            try:
                os.close(file)
            except OSError:
                pass


@pytest.mark.parametrize("op", ["open", "create", "list"])
def test_a_signal_just_after_a_request_was_sent_keeps_the_connection(hub, monkeypatch, op):
    hub.put("kept", b"1234", **BYTES)
    send, back = _connection.Connection._send, []
    hub.on_reconnect(back.append)
    calls = {
        "open": lambda: hub.open("kept"),
        "create": lambda: hub.create("not-kept", **BYTES),
        "list": hub.list,
    }

    def interrupted(self, packet, *rest):
        send(self, packet, *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_connection.Connection, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls[op]()
    until("it is given back", lambda: hub.inspect("kept")[0].leases == 1)
    until("it is given back", lambda: not hub.list(prefix="not-kept"))
    assert back == []


def test_a_cancelled_connect_async_ends_its_thread(own_hub):
    with cuda_ipc.connect(own_hub.socket) as hub:
        pid = hub.status()["pid"]

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(cuda_ipc.connect_async(own_hub.socket, timeout=None), 0.2)

    os.kill(pid, signal.SIGSTOP)
    try:
        asyncio.run(main())
        for thread in threading.enumerate():
            if thread.name == "cuda-ipc call":
                thread.join(LIMIT / 6)
                assert not thread.is_alive()
    finally:
        os.kill(pid, signal.SIGCONT)


def test_close_hangs_up_even_if_a_service_cannot_be_closed_in_time(socket, monkeypatch):
    hub = cuda_ipc.connect(socket)
    service = hub.serve("stuck", lambda request, reply: None, request=("uint8", 1))
    close = service.close

    def late():
        close()
        raise cuda_ipc.CudaIpcTimeout("TIMEOUT", "Cannot close: a GPU is still at work")

    monkeypatch.setattr(service, "close", late)
    found = code(hub.close)
    monkeypatch.undo()
    is_closed = hub.closed
    hub.close()
    assert (found, is_closed) == ("TIMEOUT", True)


@pytest.mark.parametrize("begins", [True, False])
def test_a_connect_whose_thread_does_not_start_leaves_nothing(socket, monkeypatch, begins):
    start = threading.Thread.start

    def interrupted(self):
        if begins:
            start(self)
            raise KeyboardInterrupt
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt if begins else RuntimeError):
        cuda_ipc.connect(socket)


def _limit_with_free(count):
    taken = {int(fd) for fd in os.listdir("/proc/self/fd")}
    return [fd for fd in range(1000) if fd not in taken][count]


def test_a_process_without_free_descriptors_brings_what_it_holds_to_the_next_hub(own_hub):
    back = threading.Event()
    hub = cuda_ipc.connect(own_hub.socket)
    hub.on_reconnect(lambda complete: back.set())
    with hub.create_channel("brought", "uint8", 4, readers_max=20):
        own_hub.kill_with_keeper()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (_limit_with_free(15), limits[1]))
        try:
            own_hub.start()
            came = back.wait(LIMIT / 6)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        until("it is back", back.is_set)
        assert came
    hub.close()


def test_a_signal_as_a_request_is_about_to_be_sent_holds_up_no_later_one(hub, monkeypatch):
    connection = hub._link._connection
    lock = connection._send_lock

    class Interrupted:
        release = lock.release

        def acquire(self, *options, **named):
            lock.acquire(*options, **named)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_send_lock", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            hub.list()
    done = []
    other = threading.Thread(target=lambda: done.append(hub.list(timeout=LIMIT / 6)))
    other.start()
    other.join(LIMIT)
    assert len(done) == 1


def test_the_last_words_of_a_hub_during_a_reconnection_are_the_end(tmp_path):
    path, ended = str(tmp_path / "hub.sock"), []

    def answer(client, **fields):
        number = json.loads(client.recv(65536))["id"]
        client.send(json.dumps({"v": 1, "id": number, **fields}).encode())

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            hello = {"session": 7, "resumed": True}
            client, _ = listener.accept()
            with client:
                answer(client, ok=True, result=hello)
            client, _ = listener.accept()
            with client:
                answer(client, ok=True, result=hello)
                last = {"code": "DISCONNECTED", "message": "Disconnected by an administrator"}
                answer(client, id=0, ok=False, error=last)

        thread = threading.Thread(target=serve)
        thread.start()
        hub = cuda_ipc.connect(path, start=False)
        is_over = threading.Event()
        hub.on_end(lambda reason: (ended.append(reason.code), is_over.set()))
        thread.join(LIMIT)
        heard = is_over.wait(LIMIT)
        late = threading.Event()
        hub.on_end(lambda reason: (ended.append(reason.code), late.set()))
        heard = heard and late.wait(LIMIT)
        hub.close()
    assert heard
    assert ended == ["DISCONNECTED", "DISCONNECTED"]
