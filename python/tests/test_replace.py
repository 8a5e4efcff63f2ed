"""Replacing what has a name, and the end of what the program lets go of."""

from __future__ import annotations

import contextlib
import gc

import pytest
from conftest import until

import cuda_ipc

numpy = pytest.importorskip("numpy")


@pytest.fixture
def socket(own_hub):
    """Of a hub of their own, because these tests count its objects."""
    return own_hub.socket


@pytest.fixture
def connect(socket):
    """Makes another client."""
    with contextlib.ExitStack() as clients:
        yield lambda: clients.enter_context(cuda_ipc.connect(socket))


def objects(hub: cuda_ipc.Hub) -> int:
    return int(hub.status()["objects"])


def test_replace_passes_the_name_on_and_holders_keep_the_old_object(hub, connect):
    old = hub.put("x", numpy.zeros(3))
    reader = connect().open("x", wait=False)
    new = hub.create("x", "float64", 3, replace=True)
    assert hub.inspect("x")[0].object == old._held.object
    new.write(numpy.ones(3))
    new.publish()
    assert connect().open("x", wait=False).tolist() == [1, 1, 1]
    assert reader.tolist() == [0, 0, 0]
    old.close()
    reader.close()


@pytest.mark.parametrize("pinned", [False, True])
def test_put_in_a_loop_leaves_one_object(hub, pinned):
    for step in range(5):
        hub.put("x", numpy.full(3, step), replace=True, pinned=pinned)
        gc.collect()
    assert objects(hub) == 1
    for step in range(5):
        kept = hub.put("x", numpy.full(3, step), replace=True, pinned=pinned)
    assert objects(hub) == 1
    assert kept.tolist() == [4, 4, 4]


def test_shared_tensors_in_a_loop_leave_one_object_and_its_memory(hub, connect):
    torch = pytest.importorskip("torch")
    from cuda_ipc import _shareable

    def share(step: int) -> None:
        tensor = cuda_ipc.torch.empty(100, dtype=torch.int32)
        tensor[:] = step
        assert not hub.share("x", tensor, replace=True).copied

    def kept() -> int:
        gc.collect()
        return len(_shareable._own) - before

    gc.collect()
    before = len(_shareable._own)
    reader = connect()
    share(0)
    with reader.open("x") as old:
        for step in range(1, 5):
            share(step)
        until("two objects are left", lambda: (objects(hub), kept()) == (2, 2))
        assert old.tolist() == [0] * 100
        with reader.open("x") as now:
            assert now.tolist() == [4] * 100
    until("one object is left", lambda: (objects(hub), kept()) == (1, 1))
    hub.remove("x")
    until("no object is left", lambda: (objects(hub), kept()) == (0, 0))


def test_bundles_in_a_loop_leave_one_object(hub):
    for _ in range(3):
        bundle = hub.create_bundle("b", {"w": ("float32", (2, 3))}, replace=True)
        bundle.publish()
    del bundle
    gc.collect()
    assert objects(hub) == 1
    hub.remove("b")
    assert objects(hub) == 0


def test_channels_and_timelines_in_a_loop_leave_one_object(hub, connect):
    for _ in range(3):
        hub.create_channel("c", "uint8", 4, replace=True)
        hub.create_timeline("t", replace=True)
        gc.collect()
        assert objects(hub) == 2
    with connect().open_timeline("t", wait=False) as timeline:
        assert timeline.value == 0 and not timeline.ended
    hub.remove("c")
    hub.remove("t")
    gc.collect()
    assert objects(hub) == 0


def test_a_channel_or_timeline_that_the_program_keeps_outlives_its_name(hub, connect):
    writer, timeline = hub.create_channel("c", "uint8", 1), hub.create_timeline("t")
    with connect().open_channel("c") as reader, connect().open_timeline("t") as opened:
        hub.create_channel("c", "uint8", 1, replace=True)
        hub.create_timeline("t", replace=True)
        gc.collect()
        writer.send(b"1")
        timeline.signal(1)
        with reader.next() as message:
            assert message.data == b"1"
        assert opened.value == 1
    del writer, timeline
    gc.collect()
    assert objects(hub) == 2


def test_a_published_array_that_is_let_go_of_keeps_its_name(hub, connect):
    hub.put("x", numpy.arange(3))
    gc.collect()
    assert connect().open("x", wait=False).tolist() == [0, 1, 2]


def test_an_array_that_is_let_go_of_before_publish_ends(hub):
    hub.create("x", "float32", 3)
    gc.collect()
    assert objects(hub) == 0


def test_two_that_replace_never_meet_name_taken(hub, connect):
    other = connect()
    first = hub.create("x", "float32", 1, replace=True)
    second = other.create("x", "float32", 1, replace=True)
    second.publish()
    first.publish()
    assert hub.inspect("x")[0].object == first._held.object


def test_publish_raises_if_the_name_was_taken_over_or_removed(hub, connect):
    loser = hub.create("x", "float32", 1)
    connect().put("x", numpy.zeros(1), replace=True)
    with pytest.raises(
        cuda_ipc.CudaIpcError, match=r"array of process \d+ .* has this name"
    ) as taken:
        loser.publish()
    assert taken.value.code == "NAME_TAKEN"
    removed = hub.create("y", "float32", 1)
    connect().remove("y")
    with pytest.raises(cuda_ipc.CudaIpcError, match="its name was removed") as gone:
        removed.publish()
    assert gone.value.code == "NOT_FOUND"


def test_replace_takes_no_name_of_another_kind_unless_asked_to(hub):
    timeline = hub.create_timeline("x")
    with pytest.raises(cuda_ipc.CudaIpcError, match="of kind timeline") as wrong:
        hub.put("x", numpy.zeros(1), replace=True)
    assert wrong.value.code == "WRONG_KIND"
    array = hub.put("x", numpy.zeros(1), replace="any")
    assert hub.inspect("x")[0].kind == "array"
    timeline.close()
    array.close()
    with pytest.raises(ValueError, match='True, False or "any"'):
        hub.put("x", numpy.zeros(1), replace="yes")


def test_channels_timelines_and_tensors_take_replace(hub, connect):
    hub.create_channel("c", "uint8", 4)
    reader = connect().open_channel("c")
    newer = hub.create_channel("c", "uint8", 4, replace=True)
    assert connect().open_channel("c") is not None
    newer.close()
    reader.close()
    hub.create_timeline("t")
    assert hub.create_timeline("t", replace=True).value == 0
    hub.share("s", numpy.zeros(2), copy=True)
    assert hub.share("s", numpy.ones(2), copy=True, replace=True).tolist() == [1, 1]


def test_name_taken_names_the_process_and_the_option(hub, connect):
    kept = hub.put("x", numpy.zeros(1))
    with pytest.raises(cuda_ipc.CudaIpcError, match=r"array of process \d+ \(.*\).*replace"):
        connect().put("x", numpy.zeros(1))
    kept.close()
