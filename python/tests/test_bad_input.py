"""What goes wrong around a program: signals in waits, forks, GPUs out of reach, names that never
come. Each has its code, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from conftest import LIMIT, code, interrupted, until

import cuda_ipc
from cuda_ipc import _host_capacity
from cuda_ipc._descriptors import make_descriptor
from cuda_ipc._fds import SharedFds
from cuda_ipc._memory import create_file
from cuda_ipc._service.client_link import ClientLink

# ---------------------------------------------------------------- signals


def test_an_open_that_a_signal_ends_is_cancelled_at_the_hub(hub):
    pending = hub._link._connection._pending
    interrupted(
        lambda: hub.open("comes-late", timeout=None),
        lambda: any(one.op == "open" for one in pending.values()),
    )
    with hub.put("comes-late", b"abcd"):
        until("the hub has answered", lambda: not pending)
        assert [info.leases for info in hub.list(prefix="comes-late")] == [1]
        assert hub.open("comes-late").tobytes() == b"abcd"


def test_readers_and_writers_go_on_after_a_signal(hub):
    with hub.create_channel("signals", "uint8", 1, slots=1) as writer:
        with hub.open_channel("signals") as reader:
            interrupted(reader.next, lambda: reader._is_awaited)
            writer.send(b"1")
            interrupted(lambda: writer.send(b"2"), lambda: writer._is_awaited)
            with reader.next(LIMIT) as message:
                assert message.data == b"1"
            writer.send(b"3")
            with reader.next(LIMIT) as message:
                assert message.data == b"3"


def test_a_wait_for_a_timeline_can_be_repeated_after_a_signal(hub):
    with hub.create_timeline("signals:steps") as steps, hub.open_timeline("signals:steps") as same:
        interrupted(lambda: same.wait(1), lambda: True)
        steps.signal(1)
        same.wait(1, LIMIT)


def test_a_request_that_a_signal_ends_is_cancelled_at_its_worker(hub):
    begun, codes = threading.Event(), []

    def handler(request, reply):
        if request.json == "short":
            return
        begun.set()
        until("nobody waits", lambda: request.given_up is not None)
        codes.append(request.given_up.code)

    with hub.serve("signals", handler, request=("uint8", 1)) as service:
        with hub.connect_service("signals") as client:
            interrupted(lambda: client.request(meta="long", timeout=None), begun.is_set)
            until("the handler has ended", lambda: service.running == 0)
            assert codes == ["ABORTED"]
            client.request(meta="short").release()
            assert client.waiting == 0
        interrupted(service.wait, lambda: True)
        with hub.connect_service("nobody:signals") as client:
            interrupted(lambda: client.request(timeout=None), lambda: client.waiting == 1)
            assert client.waiting == 0


@pytest.mark.parametrize("began", [False, True])
def test_a_signal_while_a_search_begins_leaves_a_client_that_works(hub, monkeypatch, began):
    """The signal comes just before or just after the thread of the search has begun."""
    start = threading.Thread.start

    def start_with_a_signal(thread):
        monkeypatch.undo()
        if began:
            start(thread)
        raise KeyboardInterrupt

    with hub.connect_service("nobody:yet") as client:
        monkeypatch.setattr(threading.Thread, "start", start_with_a_signal)
        with pytest.raises(KeyboardInterrupt):
            client.request(timeout=None)
        assert client.waiting == 0
    with hub.connect_service("late") as client:
        monkeypatch.setattr(threading.Thread, "start", start_with_a_signal)
        with pytest.raises(KeyboardInterrupt):
            client.request(timeout=None)
        with hub.serve("late", lambda request, reply: None, request=("uint8", 1)):
            client.request(timeout=LIMIT).release()


def test_a_request_that_a_signal_ends_before_its_wait_is_cancelled(hub, monkeypatch):
    """The signal comes when the request was sent, but its wait has not begun."""
    begun, codes = threading.Event(), []
    end_turn = ClientLink._end_turn

    def handler(request, reply):
        begun.set()
        until("nobody waits", lambda: request.given_up is not None)
        codes.append(request.given_up.code)

    def end_turn_with_a_signal(link):
        monkeypatch.undo()
        end_turn(link)
        assert begun.wait(LIMIT)
        raise KeyboardInterrupt

    with hub.serve("signals", handler, request=("uint8", 1)) as service:
        with hub.connect_service("signals") as client:
            monkeypatch.setattr(ClientLink, "_end_turn", end_turn_with_a_signal)
            with pytest.raises(KeyboardInterrupt):
                client.request(meta="long", timeout=None)
            until("the handler has ended", lambda: service.running == 0)
            assert codes == ["ABORTED"]


def test_a_member_that_a_signal_takes_out_of_a_barrier_breaks_the_group(tmp_path):
    path = str(tmp_path / "group.sock")
    joined = []
    thread = threading.Thread(
        target=lambda: joined.append(cuda_ipc.Group.join(path=path, rank=1, size=2))
    )
    thread.start()
    with cuda_ipc.Group.join(path=path, rank=0, size=2) as group:
        thread.join(LIMIT)
        with joined[0] as other:
            interrupted(lambda: group.barrier(None), lambda: group._is_waiting)
            assert code(other.barrier) == "BARRIER_BROKEN"
            assert code(group.barrier) == "BARRIER_BROKEN"
    interrupted(
        lambda: cuda_ipc.Group.join(path=path, rank=0, size=2, timeout=None),
        lambda: os.path.exists(path),
    )
    until("its name is free", lambda: not os.path.exists(path))


def main_thread_is_in(file: str) -> bool:
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame is not None


def test_a_signal_while_a_hub_is_looked_for_ends_connect(tmp_path, monkeypatch):
    started = tmp_path / "started"
    command = tmp_path / "cuda-ipc"
    command.write_text(f"#!/bin/sh\n: > {started}\nexec /bin/sleep 30\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = str(tmp_path / "runtime" / "hub.sock")
    # WHY after Popen: a signal inside it can leave a pipe of its own open.
    interrupted(
        lambda: cuda_ipc.connect(path, timeout=None),
        lambda: started.exists() and not main_thread_is_in(subprocess.__file__),
    )


# ---------------------------------------------------------------- forks


def in_child(action) -> int:
    """The exit status of a child that runs this: 0 if it raised CLOSED."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except cuda_ipc.CudaIpcError as refused:
            os._exit(0 if refused.code == "CLOSED" else 2)
        except BaseException:
            os._exit(3)
        os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_of_fork_has_no_services(hub):
    with hub.serve("forks", lambda *_: None, request=("uint8", 1)) as service:
        with hub.connect_service("forks") as client:
            client.request().release()

            def use() -> None:
                service.close()
                client.close()
                with pytest.raises(cuda_ipc.CudaIpcError, match="forked after connect"):
                    hub.connect_service("forks")
                client.request()

            assert in_child(use) == 0
            assert in_child(client.request) == 0
            client.request().release()
            assert (service.answered, client.workers) == (2, 1)


# ---------------------------------------------------------------- GPUs, names


def test_memory_on_a_gpu_out_of_reach_has_a_code_and_leaves_no_lease(hub):
    uuid = "GPU-00000000-0000-0000-0000-00000000ffff"
    size = 2 << 20
    array = {"dtype": "uint8", "shape": [4], "strides": [1], "byteOffset": 0}
    descriptor = make_descriptor(uuid, 4, size, {"kind": "array", "array": array})
    from cuda_ipc._deadline import Deadline

    fds = SharedFds([create_file(size)])
    held = hub._register("far", descriptor, fds, False, Deadline("create", LIMIT))
    hub._link.request("publish", {"object": held.object}, Deadline("publish", LIMIT))
    refused = code(lambda: hub.open("far"))
    assert refused in ("DEVICE_NOT_FOUND", "DRIVER_NOT_FOUND", "CUDA_UNAVAILABLE", "NO_DEVICE")
    assert [info.leases for info in hub.list(prefix="far")] == [1]
    for device in ("cuda:4096", "cuda:x", "tpu:0"):
        with pytest.raises(cuda_ipc.CudaIpcError):
            hub.create("far:new", "uint8", 1, device=device)
    held.release()


def test_more_memory_than_there_is_is_refused_at_once(hub):
    far = 32 << 40
    for creating in (
        lambda: hub.create("far", "uint8", far),
        lambda: hub.create_bundle("far", {"a": ("uint8", far)}),
        lambda: hub.create_channel("far", "uint8", far, slots=2),
    ):
        with pytest.raises(cuda_ipc.CudaIpcError, match="bytes are available") as refused:
            creating()
        assert refused.value.code == "OUT_OF_MEMORY"
        assert hub.list(prefix="far") == []


def test_control_groups_limit_the_memory_of_a_process(tmp_path):
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    found = lambda: _host_capacity._in_tree((str(tmp_path), "max", "current"), "/a/b")  # noqa: E731
    assert found() == [None, None, None]
    (group / "max").write_text("max\n")
    (group / "current").write_text("10\n")
    (tmp_path / "a" / "max").write_text("100\n")
    (tmp_path / "a" / "current").write_text("90\n")
    (tmp_path / "a" / "memory.stat").write_text("active_file 3\ninactive_file 4\nfile 99\n")
    assert found() == [None, 17, None]


def test_a_name_that_never_comes_is_a_timeout_that_says_what_it_waits_for(
    hub, patient_explanations
):
    for opening in (hub.open, hub.open_bundle, hub.open_timeline, hub.open_channel):
        with pytest.raises(TimeoutError, match="no process has created") as late:
            opening("never", timeout=0.05)
        assert late.value.code == "TIMEOUT" and late.value.retryable
        assert "; the hub is at /" in str(late.value)
        assert code(lambda: opening("never", wait=False)) == "NOT_FOUND"
    with hub.create("unpublished", "uint8", 1):
        with pytest.raises(TimeoutError, match="has not published it yet"):
            hub.open("unpublished", timeout=0.05)


# ---------------------------------------------------------------- sharing


def test_sharing_reaches_the_hub_and_the_mode_of_the_memory(hub):
    far = hub.create("shared:m", "uint8", 1, sharing={"machines": True})
    with far, hub.create("shared", "uint8", 1, sharing={"with": "all", "machines": False}):
        with hub.create_channel("shared:c", "uint8", 1, sharing={"with": "group"}):
            with hub.create_timeline("shared:t", sharing={"with": "all", "access": "read"}):
                arrays = {"a": ("uint8", 1)}
                open_to = {"with": "all", "access": "read-write"}
                with hub.create_bundle("shared:b", arrays, sharing=open_to):
                    found = {
                        name: hub._link.request(
                            "inspect", {"name": name}, hub._begin("inspect", LIMIT)
                        )["object"]["sharing"]
                        for name in ("shared", "shared:b", "shared:c", "shared:m", "shared:t")
                    }
    assert found == {
        "shared": {"with": "all", "access": "read"},
        "shared:b": {"with": "all", "access": "read-write"},
        "shared:c": {"with": "group", "access": "read"},
        "shared:m": {"with": "private", "access": "read", "machines": True},
        "shared:t": {"with": "all", "access": "read"},
    }
    fd = create_file(1)
    assert os.fstat(fd).st_mode & 0o777 == 0o644
    os.close(fd)
    for wrong in ({"with": "some"}, {"with": "all", "access": "write"}):
        with pytest.raises(ValueError):
            hub.create("wrong", "uint8", 1, sharing=wrong)
    without = ({}, {"access": "read"}, {"access": "read", "machines": True}, {"machines": 1})
    for wrong in ("all", {"with": "all", "mode": 1}, *without):
        with pytest.raises(TypeError):
            hub.create("wrong", "uint8", 1, sharing=wrong)
    with pytest.raises(ValueError):
        hub.create_timeline("wrong", sharing={"with": "all", "access": "read-write"})
    with pytest.raises(ValueError):
        hub.create_timeline("wrong", sharing={"machines": True})


def test_values_without_a_buffer_are_refused_by_a_sentence_that_helps(hub):
    for wrong in ([1, 2], 1.5, None, "text"):
        with pytest.raises(TypeError, match="data must be bytes, an array on the host"):
            hub.put("no-buffer", wrong)
    with hub.create_channel("no-buffer", "uint8", 4) as writer:
        with pytest.raises(TypeError, match="not list; numpy"):
            writer.send([1, 2])
        with hub.serve("no-buffer", lambda *_: None, request=("uint8", 1)) as service:
            with pytest.raises(TypeError, match="timeout must be a number of seconds"):
                service.wait("1")


@pytest.mark.parametrize(
    ("option", "value", "wrong"),
    [
        ("program", 5, TypeError),
        ("hub_uid", "root", TypeError),
        ("hub_idle", float("inf"), ValueError),
        ("hub_idle", "1", TypeError),
        ("reconnect_timeout", "1", TypeError),
        ("reconnect_timeout", -1, ValueError),
        ("timeout", "1", TypeError),
    ],
)
def test_connect_refuses_wrong_options_at_once(socket, option, value, wrong):
    with pytest.raises(wrong, match=f"{option} must be"):
        cuda_ipc.connect(socket, **{option: value})
