"""Processes that are killed: writers, readers, and the hub with and without its keeper."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
from conftest import LIMIT, HubProcess, code, hub_of, until

import cuda_ipc
from cuda_ipc._deadline import Deadline
from cuda_ipc._packets import _state_of

WRITES = (
    "writer = hub.create_channel(sys.argv[2], 'uint8', 8, slots=16, when_writer_gone=sys.argv[3])\n"
    "for n in range(10): writer.send(bytes([n] * 8), n)\n"
    "slot = writer.loan(); slot.data[:] = bytes([77] * 8)\n"
    "say('written'); sys.stdin.read()\n"
)


def test_a_reader_gets_all_that_a_killed_writer_committed(hub, node, python):
    peer = python(WRITES, "killed", "end")
    assert peer.said() == "written"
    other = node("channel", "read", "killed")
    assert other.said() == "reading"
    with hub.open_channel("killed", start="oldest") as reader:
        peer.kill()
        for n in range(10):
            with reader.next(LIMIT) as message:
                assert (message.sequence, message.json, message.data) == (n, n, bytes([n] * 8))
        assert code(lambda: reader.next(LIMIT)) == "PEER_GONE"
    said = other.said()
    assert (said["end"], said["wrong"], said["received"]) == ("PEER_GONE", [], 10)
    other.finish()


def test_the_next_writer_goes_on_after_a_killed_one(hub, node, python):
    peer = python(WRITES, "next", "wait")
    assert peer.said() == "written"
    with hub.open_channel("next", start="oldest") as reader:
        for _ in range(10):
            with reader.next(LIMIT):
                pass
        with pytest.raises(TimeoutError):
            reader.next(0)
        peer.kill()
        until("it is awaited", lambda: reader._ring.state == 4)
        with pytest.raises(TimeoutError, match="no other one has come"):
            reader.next(0.01)
        with hub.resume_channel("next") as writer:
            assert writer.committed == 10
            assert writer.send(b"12345678") == 10
            with reader.next(LIMIT) as message:
                assert (message.sequence, message.missed, message.data) == (10, 0, b"12345678")
            writer.end()
        assert reader.next(LIMIT) is None


def test_a_killed_reader_frees_its_place_and_its_slots(hub, node, python):
    source = (
        "reader = hub.open_channel(sys.argv[2], start='oldest')\n"
        "message = reader.next(60); say(message.sequence); sys.stdin.read()\n"
    )
    with hub.create_channel("place", "uint8", 8, slots=2, readers_max=1) as writer:
        for starts in (
            lambda: python(source, "place"),
            lambda: node("channel", "hold", "place"),
        ):
            for _ in range(2):
                writer.send(bytes(8))
            peer = starts()
            peer.said()
            assert code(lambda: hub.open_channel("place")) == "READERS_FULL"
            assert writer.try_loan() is None
            peer.kill()
            writer.send(bytes(8), timeout=LIMIT)  # waits until the hub has seen its end
        with hub.open_channel("place", start="latest") as reader:
            assert reader.try_next() is not None


def test_everything_goes_on_when_the_hub_is_killed_and_its_keeper_starts_the_next(own_hub, node):
    with cuda_ipc.connect(own_hub.socket) as hub:
        events: list[bool] = []
        hub.on_reconnect(events.append)
        array = hub.put("array", b"abcd")
        timeline = hub.create_timeline("timeline")
        waited = hub.open_timeline("timeline")
        writer = hub.create_channel("channel", "uint8", 64, slots=2)
        reader = hub.open_channel("channel")
        late: list[object] = []
        waiting = [
            threading.Thread(target=lambda: late.append(hub.open("late", timeout=LIMIT).tobytes())),
            threading.Thread(target=lambda: late.append(waited.wait(1, LIMIT))),
            threading.Thread(target=lambda: late.append(bytes(reader.next(LIMIT).data))),
        ]
        for thread in waiting:
            thread.start()
        until("the open waits", lambda: hub.status()["waitingOpens"] == 1)
        for _ in range(2):
            before = hub.status()["instance"]
            count = len(events)
            own_hub.kill()
            until("it came back", lambda count=count: len(events) > count)
            assert hub.status()["instance"] != before
        assert all(events)
        assert [info.name for info in hub.list()] == ["array", "channel", "timeline"]
        with cuda_ipc.connect(own_hub.socket) as other:
            assert other.open("array").tobytes() == b"abcd"
            other.put("late", b"late")
            timeline.signal(1)
            writer.send(b"x" * 64)
            for thread in waiting:
                thread.join(LIMIT)
            assert sorted(map(str, late)) == sorted(map(str, [b"late", None, b"x" * 64]))
        peer = node("channel", "read", "channel", at=own_hub.socket)
        assert peer.said() == "reading"
        writer.send(b"\1" * 64, 1)
        writer.close()
        assert peer.said()["end"] == "closed"
        peer.finish()
        array.close()


def test_memory_is_brought_to_the_next_hub_when_hub_and_keeper_are_killed(own_hub):
    with cuda_ipc.connect(own_hub.socket) as hub:
        events: list[bool] = []
        hub.on_reconnect(events.append)
        array = hub.put("array", b"abcd")
        bundle = hub.create_bundle("bundle", {"a": ("int8", 2)})
        bundle["a"].write(b"\1\2")
        bundle.publish()
        timeline = hub.create_timeline("timeline")
        writer = hub.create_channel("channel", "uint8", 8)
        reader = hub.open_channel("channel")
        again = hub.open("array")
        closed = hub.put("closed", b"x")
        own_hub.kill_with_keeper()
        until("the hub is gone", lambda: hub_of(own_hub.socket) is None)
        closed.close()
        own_hub.start()
        until("it came back", lambda: events)
        assert events == [True]
        assert [info.name for info in hub.list()] == ["array", "bundle", "channel", "timeline"]
        with cuda_ipc.connect(own_hub.socket) as other:
            assert other.open("array").tobytes() == b"abcd"
            assert other.open_bundle("bundle")["a"].tolist() == [1, 2]
            theirs = other.open_timeline("timeline")
            reading = other.open_channel("channel")
            timeline.signal(2)
            theirs.wait(2, LIMIT)
            writer.send(b"12345678")
            for one in (reader, reading):
                with one.next(LIMIT) as message:
                    assert message.data == b"12345678"
        assert again.tobytes() == b"abcd"
        array.close()


def test_a_reader_learns_of_its_writer_when_hub_keeper_and_writer_are_killed(own_hub, python):
    peer = python(WRITES, "gone", "end", at=own_hub.socket)
    assert peer.said() == "written"
    with cuda_ipc.connect(own_hub.socket) as hub:
        reader = hub.open_channel("gone")
        ends: list[str] = []
        thread = threading.Thread(target=lambda: ends.append(code(lambda: reader.next(LIMIT))))
        thread.start()
        until("it sleeps", lambda: reader._parts.page.ints[4] & 1)
        own_hub.kill_with_keeper()
        peer.kill()
        own_hub.start()
        thread.join(LIMIT)
        assert ends == ["PEER_GONE"]


def test_waits_end_when_no_hub_comes_back(own_hub):
    hub = cuda_ipc.connect(own_hub.socket, reconnect_timeout=0.2)
    writer = hub.create_channel("left", "uint8", 8, slots=1)
    reader, _timeline = hub.open_channel("left"), hub.create_timeline("timeline")
    other = hub.open_timeline("timeline")
    ends: list[str] = []
    slow = hub.open_channel("left")
    writer.send(bytes(8))
    with reader.next(LIMIT):
        pass
    waits = [
        lambda: reader.next(),
        lambda: writer.loan(),
        lambda: other.wait(5),
        lambda: hub.open("never", timeout=None),
    ]
    threads = [threading.Thread(target=lambda wait=wait: ends.append(code(wait))) for wait in waits]
    for thread in threads:
        thread.start()
    until("the open waits", lambda: hub.status()["waitingOpens"] == 1)
    own_hub.kill_with_keeper()
    for thread in threads:
        thread.join(LIMIT)
    assert ends == ["HUB_GONE"] * 4
    assert hub.closed and code(hub.list) == "HUB_GONE"
    with slow.next(LIMIT) as message:
        assert message.data == bytes(8), "what is mapped stays usable"
    hub.close()


def test_a_hub_that_was_stopped_is_not_looked_for(own_hub):
    hub = cuda_ipc.connect(own_hub.socket)
    reasons = []
    hub.on_end(reasons.append)
    array = hub.put("kept", b"abcd")
    with cuda_ipc.connect(own_hub.socket) as closed:
        closed.on_end(reasons.append)
    with cuda_ipc.connect(own_hub.socket) as other:
        assert code(other.stop) == "HUB_IN_USE"
        other.stop(force=True)
    until("it has noticed", lambda: reasons)
    assert hub.closed
    assert code(hub.list) == "HUB_GONE"
    assert [reason.code for reason in reasons] == ["HUB_GONE"]
    assert array.tobytes() == b"abcd"
    hub.close()


@pytest.mark.parametrize("side", ["writer", "reader"])
def test_a_channel_may_be_closed_while_the_end_of_the_hub_wakes_its_user(own_hub, side):
    hub = cuda_ipc.connect(own_hub.socket, reconnect=False)
    writer = hub.create_channel("closing", "uint8", 8)
    channel = writer if side == "writer" else hub.open_channel("closing")
    wake = channel._held.on_lost
    wakes, is_closed, woken = threading.Event(), threading.Event(), threading.Event()

    def wake_late():
        wakes.set()
        is_closed.wait(LIMIT)
        wake()
        woken.set()

    channel._held.on_lost = wake_late
    own_hub.kill()
    assert wakes.wait(LIMIT)
    channel.close()
    is_closed.set()
    assert woken.wait(LIMIT), "the bell was closed under the thread that rings it"
    hub.close()


def test_without_reconnect_the_end_of_the_connection_is_the_end(own_hub):
    hub = cuda_ipc.connect(own_hub.socket, reconnect=False)
    own_hub.kill()
    until("it has noticed", lambda: hub.closed)
    assert code(hub.list) == "HUB_GONE"
    hub.close()


def test_a_child_is_refused_and_changes_nothing(hub):
    array = hub.put("forked", b"abcd")
    writer = hub.create_channel("forked:channel", "uint8", 4)
    reader = hub.open_channel("forked:channel")
    timeline = hub.create_timeline("forked:timeline")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for refused in (
                hub.list,
                lambda: hub.open("forked"),
                writer.loan,
                reader.try_next,
                lambda: timeline.signal(9),
                array.publish,
            ):
                assert code(refused) == "CLOSED", refused
            with pytest.raises(cuda_ipc.CudaIpcError, match="forked"):
                hub.status()
            assert array.tobytes() == b"abcd", "what is mapped stays usable"
            for one in (array, writer, reader, timeline, hub):
                one.close()
            with cuda_ipc.connect(hub.socket_path) as own:
                assert own.open("forked").tobytes() == b"abcd"
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert writer.readers == 1 and reader._ring.state == 1
    writer.send(b"more")
    with reader.next(LIMIT) as message:
        assert message.data == b"more"
    timeline.signal(1)
    assert not timeline.ended and timeline.value == 1
    assert [info.name for info in hub.list()] == ["forked", "forked:channel", "forked:timeline"]


def test_threads_share_a_hub(hub):
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for turn in range(20):
                with hub.put(f"thread:{n}", bytes([n, turn])):
                    assert hub.open(f"thread:{n}").tobytes() == bytes([n, turn])
                    with pytest.raises(TimeoutError):
                        hub.open(f"nothing:{n}", timeout=0)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert failures == []
    assert hub.list() == [] and hub.status()["leases"] == 0


def test_a_process_with_too_many_descriptors_gets_a_code_and_keeps_no_lease(hub, python):
    source = (
        "import resource\n"
        "kept = hub.put('a', b'x'); hub.status()\n"
        "count = len(__import__('os').listdir('/proc/self/fd'))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (count - 1, count + 100))\n"
        "try: hub.open('a'); say('opened')\n"
        "except cuda_ipc.CudaIpcError as error: say(error.code)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))\n"
        "say(hub.open('a').tobytes().decode())\n"
        "while hub.status()['leases'] > 1: pass\n"
        "say(hub.status()['leases'])\n"
        "hub.close()\n"
    )
    peer = python(source)
    assert [peer.said() for _ in range(3)] == ["TOO_MANY_FDS", "x", 1]
    peer.finish()


def test_a_missing_or_untrusted_hub_has_its_code(tmp_path, monkeypatch):
    assert code(lambda: cuda_ipc.connect(tmp_path / "hub.sock")) == "HUB_UNAVAILABLE"
    assert code(lambda: cuda_ipc.connect(tmp_path / ("x" * 120))) == "SOCKET_PATH_TOO_LONG"
    monkeypatch.chdir(tmp_path)
    assert code(lambda: cuda_ipc.connect("tcp://10.0.0.1:7000")) == "UNSUPPORTED"
    monkeypatch.setenv("CUDA_IPC_SOCKET", "tcp://10.0.0.1:7000")
    assert code(lambda: cuda_ipc.connect()) == "UNSUPPORTED"
    monkeypatch.delenv("CUDA_IPC_SOCKET")
    assert os.listdir(tmp_path) == []
    os.chmod(tmp_path, 0o777)
    assert code(lambda: cuda_ipc.connect(tmp_path / "hub.sock")) == "UNSAFE_RUNTIME_DIR"
    os.chmod(tmp_path, 0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert code(lambda: cuda_ipc.connect(link / "hub.sock")) == "UNSAFE_RUNTIME_DIR"
    monkeypatch.setenv("CUDA_IPC_HUB_UID", "me")
    with pytest.raises(ValueError, match="CUDA_IPC_HUB_UID"):
        cuda_ipc.connect(tmp_path / "hub.sock")


def test_a_hub_of_another_version_or_without_sense_is_refused(tmp_path):
    import socket

    path = str(tmp_path / "hub.sock")
    answers = [
        (json.dumps({"v": 1, "id": 0, "ok": False, "error": {"code": "LIMIT_EXCEEDED", "message": "full"}}), "LIMIT_EXCEEDED"),
        (json.dumps({"v": 1, "id": 1, "ok": False, "error": {"code": "PROTOCOL_MISMATCH", "message": "2"}}), "PROTOCOL_MISMATCH"),
        (json.dumps({"v": 2, "id": 1, "ok": True, "result": {}}), "PROTOCOL_MISMATCH"),
        (json.dumps({"v": 1, "id": 1, "ok": True, "result": {"session": "x"}}), "INVALID_MESSAGE"),
        (json.dumps({"v": 1, "id": 9, "ok": True, "result": {}}), "INVALID_MESSAGE"),
        ("no JSON", "INVALID_MESSAGE"),
        (json.dumps([1]), "INVALID_MESSAGE"),
    ]  # fmt: skip
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            for answer, _ in answers:
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.send(answer.encode())
                    client.recv(65536)

        thread = threading.Thread(target=serve)
        thread.start()
        assert [code(lambda: cuda_ipc.connect(path)) for _ in answers] == [c for _, c in answers]
        thread.join(LIMIT)
        with pytest.raises(TimeoutError):
            cuda_ipc.connect(path, timeout=0.05)


def test_a_program_that_closes_nothing_ends_at_once_and_leaves_nothing(hub, python):
    peer = python(
        "array = hub.put('unclosed', b'x'); writer = hub.create_channel('unclosed:c', 'int8', 1)\n"
        "reader = hub.open_channel('unclosed:c'); timeline = hub.create_timeline('unclosed:t')\n"
        "view = array.__dlpack__(max_version=(1, 0)); say('open')\n"
    )
    assert peer.said() == "open"
    assert peer.child.communicate(timeout=LIMIT) == (b"", None)
    assert peer.child.returncode == 0
    assert hub.list() == []


def test_an_error_travels_between_processes_and_says_what_to_do(hub):
    import pickle

    try:
        hub.open("nothing", timeout=0)
    except TimeoutError as late:
        again = pickle.loads(pickle.dumps(late))
        assert (type(again), again.code, again.message) == (type(late), "TIMEOUT", late.message)
        assert "Raise timeout" in str(late)


def test_the_hub_process_of_the_tests_ends_with_its_keeper():
    process = HubProcess()
    until("a keeper runs", process.keepers)
    process.end()
    assert process.keepers() == [] and not os.path.exists(process.folder)


def test_a_client_that_was_disconnected_says_so_and_stays_away(hub, python):
    peer = python(
        "writer = hub.create_channel('mine', 'uint8', 8, slots=2)\n"
        "reader = hub.open_channel('mine')\n"
        "say('waiting')\n"
        "codes = []\n"
        "try: reader.next()\n"
        "except cuda_ipc.CudaIpcError as error: codes.append(error.code)\n"
        "try: hub.list()\n"
        "except cuda_ipc.CudaIpcError as error: codes.append(error.code)\n"
        "say(codes); sys.stdin.read()\n"
    )
    assert peer.said() == "waiting"
    link = hub._link
    deadline = Deadline("disconnect", LIMIT)
    clients = link.request("clients", {}, deadline)["clients"]
    [session] = [one["session"] for one in clients if one["pid"] == peer.child.pid]
    link.request("disconnect", {"session": session}, deadline)
    assert peer.said() == ["DISCONNECTED", "DISCONNECTED"]
    peer.finish()


def test_errors_of_limits_and_foreign_sockets_have_a_code_and_advice():
    import errno

    from cuda_ipc.errors import system_error

    big = system_error("make x", OSError(errno.EFBIG, ""))
    assert big.code == "LIMIT_EXCEEDED" and "ulimit -f" in str(big)
    other = system_error("reach x", OSError(errno.EPROTOTYPE, ""))
    assert other.code == "WRONG_KIND" and "Another program" in str(other)


def test_a_stopped_keeper_is_named_if_the_hub_has_ended():
    process = HubProcess()
    try:
        with cuda_ipc.connect(process.socket) as hub:
            until("a keeper runs", process.keepers)
            (keeper,) = process.keepers()
            pid = hub_of(process.socket)
            os.kill(keeper, signal.SIGSTOP)
            until("it stands still", lambda: _state_of(keeper) == "T")
            os.kill(pid, signal.SIGKILL)
            until("the hub has ended", lambda: _state_of(pid) is None)
            words = rf"the last hub \(process {pid}\) has ended, and its keeper"
            with pytest.raises(TimeoutError, match=words):
                cuda_ipc.connect(process.socket, timeout=0.5)
            with pytest.raises(TimeoutError, match=words):
                hub.list(timeout=0.5)
            os.kill(keeper, signal.SIGCONT)
            assert hub.list() == []
    finally:
        process.end()
