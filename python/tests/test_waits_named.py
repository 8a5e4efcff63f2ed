"""The error of a wait names the socket of the hub that was asked."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from conftest import hub_of

import cuda_ipc
from cuda_ipc._leases import HeldLease

LATE = 0.05


def test_a_wait_for_a_silent_hub_names_its_socket(own_hub):
    sizes = {"request": ("int8", 1), "reply": ("int8", 1)}
    with cuda_ipc.connect(own_hub.socket) as hub:
        made = hub.create("made", "int8", 1)
        pid = hub_of(own_hub.socket)
        os.kill(pid, signal.SIGSTOP)
        try:
            for call in (
                lambda: hub.create("frame", "int8", 1, timeout=LATE),
                lambda: hub.put("frame", b"a", dtype="int8", timeout=LATE),
                lambda: hub.create_bundle("frame", {"a": ("int8", 1)}, timeout=LATE),
                lambda: hub.create_channel("frame", "int8", 1, timeout=LATE),
                lambda: hub.create_timeline("frame", timeout=LATE),
                lambda: hub.open("frame", timeout=LATE),
                lambda: hub.list(LATE),
                lambda: hub.inspect("frame", LATE),
                lambda: hub.remove("frame", LATE),
                lambda: hub.status(LATE),
                lambda: hub.stop(timeout=LATE),
                lambda: hub.serve("frame", print, timeout=LATE, **sizes),
                lambda: made.publish(LATE),
            ):
                with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
                    call()
                assert caught.value.message.endswith(f"; the hub is at {own_hub.socket}")
            with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
                cuda_ipc.connect(own_hub.socket, timeout=LATE)
            assert caught.value.message.count(own_hub.socket) == 1
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_wait_for_a_timeline_names_the_socket(hub):
    with hub.create_timeline("waits:timeline") as mine, hub.open_timeline(mine.name) as other:
        for wait in (
            lambda: mine.wait(1, LATE),
            lambda: other.wait(1, LATE),
            lambda: asyncio.run(other.wait_async(1, LATE)),
        ):
            with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
                wait()
            assert caught.value.message.endswith(f"reached 0; the hub is at {hub.socket_path}")


def test_a_hub_that_has_lost_what_is_used_is_named(hub, monkeypatch):
    with (
        hub.create_timeline("waits:lost") as timeline,
        hub.create_channel("waits:channel", "int8", 1, slots=1) as writer,
        hub.open_channel("waits:channel") as reader,
        hub.create("waits:array", "int8", 1) as array,
    ):
        monkeypatch.setattr(HeldLease, "is_held", False)
        # As a link rings them that has lost a lease.
        reader._parts.bell.ring()
        writer._parts.room.ring()
        for call in (
            lambda: timeline.wait(1, 60),
            lambda: reader.next(60),
            lambda: (writer.send(b"1"), writer.send(b"2", timeout=60)),
            array.publish,
        ):
            with pytest.raises(cuda_ipc.CudaIpcError, match=f"hub at {hub.socket_path} has lost"):
                call()
        monkeypatch.undo()


def test_a_wait_for_readers_or_workers_names_the_socket(hub):
    with hub.create_channel("waits:readers", "int8", 1) as writer:
        with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
            writer.wait_for_readers(1, LATE)
    assert caught.value.message.endswith(f"; the hub is at {hub.socket_path}")
    with hub.connect_service("waits:nobody") as client:
        with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
            client.request(b"a", timeout=LATE)
    assert caught.value.message.endswith(f"; the hub is at {hub.socket_path}")
