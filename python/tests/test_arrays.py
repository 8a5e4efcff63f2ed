"""Arrays and bundles: what Node shares, Python sees, and the other way round."""

from __future__ import annotations

import array as array_module
import hashlib
import json
import os
import struct
import time

import pytest
from conftest import code

import cuda_ipc
from cuda_ipc._protocol import DTYPE_SIZES

numpy = pytest.importorskip("numpy")


def pattern(dtype: str) -> bytes:
    if dtype == "bool":
        return bytes([1, 0, 1, 1, 0, 0])
    return bytes((n * 37 + 11) % 256 for n in range(6 * DTYPE_SIZES[dtype][0]))


def test_every_dtype_goes_from_node_to_python_and_back_bit_for_bit(hub, node):
    sizes = {name: size for name, (size, _) in DTYPE_SIZES.items()}
    peer = node("arrays", json.dumps(sizes))
    assert peer.said() == "ready"
    for dtype in sizes:
        with hub.open(f"node:{dtype}") as array:
            assert (array.dtype, array.shape, array.readonly) == (dtype, (2, 3), True)
            assert array.tobytes() == pattern(dtype)
            assert code(lambda array=array: array.write(pattern(dtype))) == "READ_ONLY"
        with hub.create(f"py:{dtype}", dtype, (3, 2)) as mine:
            mine.write(pattern(dtype))
            mine.publish()
            peer.tell(f"py:{dtype}")
            said = peer.said()
            assert said["dtype"] == dtype and said["shape"] == [3, 2]
            assert said["sha256"] == hashlib.sha256(pattern(dtype)).hexdigest()
            if dtype == "float32":
                assert mine.tolist() == [7.0] * 6, "Node has written into the same memory"
    with hub.open_bundle("node:bundle") as bundle:
        assert list(bundle) == ["w", "größe/b", "none"]
        assert bundle.metadata == {"made": "by Node"}
        assert bundle["w"].tolist() == [1.5, -2.0]
        assert bundle["größe/b"].tolist() == [-1, 0, 1]
        assert bundle["none"].shape == (2, 0) and bundle["none"].tobytes() == b""
    assert code(lambda: hub.open("node:pooled")) == "UNSUPPORTED"
    assert code(lambda: hub.open("node:bundle")) == "WRONG_KIND"
    peer.finish()


def test_numpy_views_the_very_memory_in_all_three_ways(hub):
    pytest.importorskip("ml_dtypes")
    for dtype in DTYPE_SIZES:
        array = hub.create("views", dtype, (2, 3))
        array.write(pattern(dtype))
        view = array.numpy()
        assert view.dtype.name == dtype and view.shape == (2, 3)
        assert view.tobytes() == pattern(dtype)
        view.view(numpy.uint8)[0, 0] = 0
        assert array.tobytes()[0] == 0
        ways = [numpy.asarray]
        if dtype not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            ways.append(numpy.from_dlpack)
        for way in ways:
            other = way(array)
            assert other.dtype.name == dtype and numpy.shares_memory(other, view), way
        array.close()


def test_a_view_keeps_the_memory_after_everything_was_closed(socket, hub):
    with cuda_ipc.connect(socket) as other:
        shared = other.put("kept", numpy.arange(5, dtype=numpy.int16))
        views = [shared.numpy(), numpy.asarray(shared), numpy.from_dlpack(shared)]
        shared.close()
        assert code(shared.tobytes) == "CLOSED"
        assert code(shared.numpy) == "CLOSED"
        assert code(shared.publish) == "CLOSED"
        shared.close()
    del shared
    for view in views:
        assert view.tolist() == [0, 1, 2, 3, 4]
    assert code(lambda: hub.open("kept", wait=False)) == "NOT_FOUND"


def test_a_view_of_memory_opened_for_reading_is_read_only(hub):
    with hub.put("read-only", [1, 2][0:0] or struct.pack("<2f", 1, 2), dtype="float32") as _mine:
        with hub.open("read-only") as array:
            for view in (array.numpy(), numpy.asarray(array), numpy.from_dlpack(array)):
                assert not view.flags.writeable
                with pytest.raises(ValueError):
                    view[0] = 3
            with pytest.raises(BufferError, match="1\\.0"):
                array.__dlpack__()
        with hub.open("read-only", access="read-write") as array:
            assert array.__dlpack__() is not None, "a capsule that nobody takes is freed"
            array.numpy()[0] = 3
        assert _mine.tolist() == [3.0, 2.0]


def test_dlpack_checks_what_it_is_asked_for(hub):
    with hub.create("asked", "int32", 4) as array:
        assert array.__dlpack_device__() == (1, 0)
        for wrong in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 5}):
            with pytest.raises(BufferError):
                array.__dlpack__(**wrong)
        with pytest.raises(TypeError):
            array.__dlpack__(stream="x")
        with pytest.raises(AttributeError):
            _ = array.__cuda_array_interface__


def test_strides_may_be_negative_zero_and_leave_gaps(hub, python):
    """Only another client can lay an array out like this, so one is asked to."""
    peer = python(
        "from cuda_ipc._layout import Layout\n"
        "from cuda_ipc._dtypes import DTYPES\n"
        "from cuda_ipc._hub import arrays as module\n"
        "layouts = json.loads(sys.argv[2])\n"
        "plan = iter(layouts)\n"
        "def odd(dtype, shape, offset=0):\n"
        "    shape, strides, offset = next(plan)\n"
        "    return Layout(DTYPES['int16'], tuple(shape), tuple(strides), offset)\n"
        "module.packed_layout = odd\n"
        "kept = []\n"
        "Layout.nbytes = property(lambda self: 24)\n"
        "for n, _ in enumerate(layouts):\n"
        "    array = hub.create(f'odd:{n}', 'int16', 1)\n"
        "    array._memory.write(0, memoryview(bytes(range(24))))\n"
        "    array.publish(); kept.append(array)\n"
        "say('ready'); sys.stdin.read(); hub.close()\n",
        json.dumps([[[2, 3], [-6, 2], 12], [[3], [0], 4], [[], [], 2]]),
    )
    assert peer.said() == "ready"
    words = struct.unpack("<12h", bytes(range(24)))
    wanted = [[6, 8, 10, 0, 2, 4], [2, 2, 2], [1]]
    for n, indices in enumerate(wanted):
        with hub.open(f"odd:{n}") as array:
            values = [words[index] for index in indices]
            assert array.tolist() == values
            for view in (array.numpy(), numpy.asarray(array), numpy.from_dlpack(array)):
                assert view.reshape(-1).tolist() == values
    peer.finish()


def test_put_takes_arrays_buffers_and_bytes(hub):
    values = numpy.arange(12, dtype=numpy.float64).reshape(3, 4)
    for n, (data, shape) in enumerate(
        [(values, (3, 4)), (values.T, (4, 3)), (values[:, ::2], (3, 2)), (values[:0], (0, 4))]
    ):
        with hub.put(f"put:{n}", data) as array:
            assert array.shape == shape and array.numpy().tolist() == data.tolist()
    with hub.put("put:bytes", b"abcd") as array:
        assert array.dtype == "uint8" and array.tobytes() == b"abcd"
    with hub.put("put:typed", b"\0\0\x80\x3f" * 6, dtype="float32", shape=(2, 3)) as array:
        assert array.tolist() == [1.0] * 6
    for data in (values, values.T.copy().reshape(-1), array_module.array("d", range(12))):
        with hub.put("put:shaped", data, shape=(2, 6)) as array:
            assert (array.dtype, array.shape) == ("float64", (2, 6))
            assert array.tobytes() == memoryview(data).tobytes()
    ml_dtypes = pytest.importorskip("ml_dtypes")
    small = numpy.array([1.0, -2.0], dtype=ml_dtypes.bfloat16)
    with hub.put("put:bfloat16", small) as array:
        assert array.dtype == "bfloat16" and array.numpy().tolist() == [1.0, -2.0]
    assert code(lambda: hub.put("put:big", values.astype(">f8"))) == "UNSUPPORTED_DTYPE"
    with pytest.raises(TypeError):
        hub.put("put:object", object())
    with pytest.raises(ValueError):
        hub.put("put:short", b"abc", dtype="float32")


def test_wrong_arguments_are_refused_and_nothing_is_held(hub, patient_explanations):
    assert code(lambda: hub.create("a b", "int8", 1)) == "INVALID_NAME"
    assert code(lambda: hub.create("dtype", "float128", 1)) == "UNSUPPORTED_DTYPE"
    assert code(lambda: hub.create("device", "int8", 1, device="tpu:0")) == "INVALID_DEVICE"
    assert code(lambda: hub.open("nobody", wait=False)) == "NOT_FOUND"
    assert code(lambda: hub.remove("nobody")) == "NOT_FOUND"
    for wrong in (
        (TypeError, lambda: hub.create(5, "int8", 1)),
        (
            ValueError,
            lambda: hub.create("shape", "int8", -1),
        ),
        (ValueError, lambda: hub.open("x", access="write")),
        (
            TypeError,
            lambda: hub.open("x", timeout="1"),
        ),
        (ValueError, lambda: hub.create_bundle("x", {"a": ("int8", [1] * 40)})),
    ):
        with pytest.raises(wrong[0]):
            wrong[1]()
    with hub.create("taken", "int8", 1):
        assert code(lambda: hub.create("taken", "int8", 1)) == "NAME_TAKEN"
        assert code(lambda: hub.open("taken", wait=False)) == "NOT_FOUND"
        with pytest.raises(TimeoutError, match="has not published it yet") as late:
            hub.open("taken", timeout=0.05)
        assert late.value.code == "TIMEOUT" and late.value.retryable
    assert hub.list() == []
    assert hub.status()["leases"] == 0 and hub.status()["waitingOpens"] == 0


def test_pinned_outlives_its_session_and_lists_are_complete(socket, hub):
    with cuda_ipc.connect(socket) as other:
        names = [f"many:{n:03}" for n in range(300)]
        for name in names:
            other.put(name, b"x", pinned=True).close()
    listed = hub.list()
    assert [info.name for info in listed] == names
    assert listed[0].pinned and listed[0].owner_pid is None and listed[0].kind == "array"
    for name in names:
        hub.remove(name)
    with hub.put("mine", b"abc") as mine:
        info, holders = hub.inspect("mine")
        assert info.published and info.byte_length == 3
        assert [(h.pid, h.program, h.access) for h in holders] == [(os.getpid(), "pytest", "owner")]
        assert mine.tobytes() == b"abc"
    assert hub.list() == []


def test_a_list_of_all_has_what_was_replaced_and_is_still_held(hub):
    with hub.put("frame", b"old") as old, hub.put("frame", b"new", replace=True):
        [named] = hub.list()
        assert (named.nameless, named.holders) == (False, [])
        named, nameless = hub.list(all=True)
        assert (named.name, named.nameless) == ("frame", False)
        assert (nameless.name, nameless.nameless, nameless.leases) == ("frame", True, 1)
        assert [(h.pid, h.access) for h in nameless.holders] == [(os.getpid(), "owner")]
        assert hub.status()["nameless"]["objects"] == 1
        assert len(hub.list(all=True, prefix="fra")) == 2 and hub.list(all=True, prefix="x") == []
        assert old.tobytes() == b"old"
    assert hub.list(all=True) == []


def test_an_object_is_removed_by_its_number_only_while_it_has_the_name(hub):
    hub.put("weights", b"abc", pinned=True).close()
    [first] = hub.list()
    hub.remove("weights")
    hub.put("weights", b"def", pinned=True).close()
    assert code(lambda: hub.remove("weights", object=first.object)) == "STALE_HANDLE"
    [second] = hub.list()
    hub.remove("weights", object=second.object)
    assert hub.list() == []


def test_an_object_is_removed_only_if_nobody_has_used_it_since_it_was_listed(hub):
    hub.put("weights", b"abc", pinned=True).close()
    [listed] = hub.list()
    assert listed.unheld_since_ms is not None
    time.sleep(0.005)  # the time has milliseconds
    with hub.open("weights"):
        [held] = hub.list()
        assert held.unheld_since_ms is None
    seen = listed.unheld_since_ms
    assert code(lambda: hub.remove("weights", unheld_since_ms=seen)) == "IN_USE"
    [now] = hub.list()
    hub.remove("weights", unheld_since_ms=now.unheld_since_ms)
    assert hub.list() == []


def test_a_bundle_is_a_mapping_of_arrays(hub):
    arrays = {"a": ("complex64", (2,)), "none": ("uint8", (3, 0)), "größe/b": ("bool", (5,))}
    with hub.create_bundle("bundle", arrays, {"made": "by Python"}) as bundle:
        bundle["a"].write(struct.pack("<4f", 1, 2, 3, 4))
        bundle.publish()
        other = hub.open_bundle("bundle")["a"]
        assert other.tolist() == [1 + 2j, 3 + 4j], "an array keeps its bundle open"
        assert len(bundle) == 3 and "größe/b" in bundle
        with pytest.raises(KeyError):
            bundle["b"]
    assert code(lambda: bundle["a"]) == "CLOSED"


def test_put_with_replace_takes_the_name_of_an_older_object(hub, socket):
    with cuda_ipc.connect(socket) as other:
        older = other.put("replaced", b"old")
        seen = hub.open("replaced")
        with pytest.raises(cuda_ipc.CudaIpcError) as taken:
            hub.put("replaced", b"newer")
        assert taken.value.code == "NAME_TAKEN"
        with pytest.raises(ValueError):
            hub.put("replaced", b"abc", dtype="float32", shape=1, replace=True)
        assert hub.open("replaced").tobytes() == b"old", "nothing was removed"
        newer = hub.put("replaced", b"newer", replace=True)
        assert hub.open("replaced").tobytes() == b"newer"
        assert (seen.tobytes(), older.tobytes()) == (b"old", b"old")
        hub.put("new", b"x", replace=True).close()
        newer.close()


def test_a_copy_is_written_and_nobody_else_sees_it(hub):
    with hub.put("shared", bytes(8192), dtype="uint8") as shared:
        with hub.open("shared", access="copy") as copy:
            assert not copy.readonly
            copy.write(b"\1" * 8192)
            assert copy.tobytes() == b"\1" * 8192 and shared.tobytes() == bytes(8192)
            assert [holder.access for holder in hub.inspect("shared")[1]] == ["owner", "read"]
        with hub.open("shared", access="copy") as other:
            assert other.tobytes() == bytes(8192)
        with pytest.raises(ValueError, match='"copy"'):
            hub.open("shared", access="write")
