"""What is copied into shared memory keeps its values: elements of another type are refused, and
arrays of NumPy and PyTorch need no detour by bytes."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import sys

import pytest
from conftest import LIMIT, code

import cuda_ipc

numpy = pytest.importorskip("numpy")


def test_put_refuses_elements_of_another_type_than_its_dtype(hub):
    for values, dtype in (("float64", "float32"), ("int64", "float64"), ("float32", "int32")):
        with pytest.raises(TypeError, match=f"data are {values}, wanted {dtype}"):
            hub.put("data", numpy.ones(2, values), dtype=dtype)
    assert hub.list(prefix="data") == []
    with hub.put("data", numpy.ones((2, 3), "float32"), dtype="float32") as same:
        assert same.shape == (2, 3) and same.tolist() == [1.0] * 6
    with hub.put("data", numpy.array([0x3F80], "uint16"), dtype="bfloat16") as bits:
        assert bits.tobytes() == b"\x80\x3f"
    with hub.put("data", numpy.ones(2, "float32").view("uint8"), dtype="float32") as raw:
        assert raw.tolist() == [1.0, 1.0]


def test_big_endian_values_are_refused_wherever_a_dtype_is_given(hub):
    big = numpy.ones(4, ">f4")
    for call in (
        lambda: hub.put("big", big),
        lambda: hub.put("big", big, dtype="float32"),
        lambda: hub.put("big", big.tobytes(), dtype=big.dtype),
        lambda: hub.create("big", big.dtype, 4),
        lambda: hub.share("big", big),
    ):
        assert code(call) == "UNSUPPORTED_DTYPE"
    with hub.create("big", "float32", 4) as array:
        assert code(lambda: array.write(big)) == "UNSUPPORTED_DTYPE"
        assert array.tolist() == [0.0] * 4


def test_write_send_and_request_refuse_elements_of_another_type(hub):
    wrong = numpy.ones(2, "float64")
    with hub.create("data", "float32", 4) as array:
        with pytest.raises(TypeError, match="data are float64, wanted float32"):
            array.write(wrong)
    with hub.create_channel("data", "float32", 4) as writer:
        with pytest.raises(TypeError, match="data are float64, wanted float32"):
            writer.send(wrong)
        assert writer.send(numpy.ones(4, "float32")) == 0
    with hub.serve("data", lambda *_: None, request=("float32", 4)):
        with hub.connect_service("data") as client:
            with pytest.raises(TypeError, match="data are float64, wanted float32"):
                client.request(wrong, timeout=LIMIT)
            client.request(numpy.ones(4, "float32"), timeout=LIMIT).release()


def test_a_channel_of_bytes_takes_the_bytes_of_any_values(hub):
    values = numpy.array([(1, 2.5)], [("id", "int32"), ("at", "float64")])
    with hub.create_channel("bytes", "uint8", 64) as writer, hub.open_channel("bytes") as reader:
        for data in (values, numpy.ones((2, 2)), b"abc"):
            writer.send(data)
            with reader.next(LIMIT) as message:
                assert message.data == (data if isinstance(data, bytes) else data.tobytes())


def test_a_masked_array_is_refused_because_its_mask_would_be_lost(hub):
    masked = numpy.ma.masked_array([1.0, 2.0], mask=[False, True])
    assert code(lambda: hub.put("masked", masked)) == "UNSUPPORTED"
    assert code(lambda: hub.share("masked", masked)) == "UNSUPPORTED"
    with hub.create("masked", "float64", 2) as array:
        assert code(lambda: array.write(masked)) == "UNSUPPORTED"
    with hub.create_channel("masked:c", "uint8", 16) as writer:
        assert code(lambda: writer.send(masked)) == "UNSUPPORTED"


def test_bfloat16_of_ml_dtypes_is_written_and_sent(hub):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = numpy.array([1, 2], ml_dtypes.bfloat16)
    with hub.create("bf", "bfloat16", 2) as array:
        array.write(values)
        assert array.tobytes() == values.tobytes()
        with pytest.raises(TypeError, match="data are bfloat16, wanted float16"):
            hub.put("bf:2", values, dtype="float16")
    with hub.create_channel("bf:c", "bfloat16", 2) as writer, hub.open_channel("bf:c") as reader:
        writer.send(values)
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == values.tobytes()


def test_tensors_of_each_dtype_are_copied_by_put_write_and_send(hub):
    torch = pytest.importorskip("torch")

    def raw(tensor) -> bytes:
        return tensor.contiguous().view(torch.uint8).numpy().tobytes()

    for dtype in cuda_ipc.dtypes:
        tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
        with hub.put("tensor", tensor.t()) as array:
            assert (array.dtype, array.shape) == (dtype, (3, 2))
            assert array.tobytes() == raw(tensor.t())
            array.write(tensor.reshape(3, 2))
            assert array.tobytes() == raw(tensor)
    with (
        hub.create_channel("tensor", "bfloat16", 2) as writer,
        hub.open_channel("tensor") as reader,
    ):
        writer.send(torch.tensor([1, 2], dtype=torch.bfloat16))
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\x80\x3f\x00\x40"


def test_put_refuses_tensors_without_plain_values_by_a_code(hub):
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.ones(2, requires_grad=True),
        torch.eye(2).to_sparse(),
        torch.ones(2, device="meta"),
    ):
        assert code(lambda: hub.put("tensor", tensor)) == "UNSUPPORTED"


def test_a_message_of_a_shape_needs_all_of_its_data(hub):
    """What an older message has left in the slot would be sent, too."""
    with hub.create_channel("shapes", "float32", 4) as writer:
        for size, shape in ((8, 3), (12, (1, 2)), (0, 1)):
            with pytest.raises(ValueError, match=f"{size} bytes for a message of shape"):
                writer.send(bytes(size), shape=shape)
        assert writer.send(bytes(8), shape=(1, 2)) == 0
    with hub.serve("shapes", lambda *_: None, request=("float32", 4)):
        with hub.connect_service("shapes") as client:
            with pytest.raises(ValueError, match="8 bytes for a message of shape 3"):
                client.request(bytes(8), shape=3, timeout=LIMIT)
            with pytest.raises(ValueError, match="8 bytes for a request of byte_length 12"):
                client.request(bytes(8), byte_length=12)
            client.request(bytes(8), shape=2, timeout=LIMIT).release()


def test_a_shape_may_be_one_number_of_numpy(hub):
    with hub.create("shapes", "uint8", numpy.int64(3)) as one:
        assert one.shape == (3,)
    with hub.create("shapes", "uint8", numpy.array([2, 3])) as two:
        assert two.shape == (2, 3)
    for wrong in (2.0, None, "12", (1.5,)):
        with pytest.raises(TypeError, match="shape must be integers"):
            hub.create("shapes", "uint8", wrong)


def test_a_timeout_may_be_longer_than_the_system_can_wait(hub):
    with hub.put("forever", b"abcd"), hub.create_channel("forever:c", "uint8", 1) as writer:
        for timeout in (float("inf"), 1e300, 1e8):
            hub.open("forever", timeout=timeout).close()
            hub.open_channel("forever:c", timeout=timeout).close()
            with writer.loan(timeout):
                pass


def test_memory_that_cannot_be_made_is_one_error_and_nothing_on_stderr(hub, monkeypatch):
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def no_descriptor(*_: object) -> int:
        raise OSError(errno.EMFILE, "none is left")

    monkeypatch.setattr(os, "memfd_create", no_descriptor)
    assert code(lambda: hub.create("no-fd", "uint8", 1)) == "TOO_MANY_FDS"
    gc.collect()
    assert unraisable == []


def test_what_is_open_cannot_be_pickled_or_copied_and_says_what_to_do(hub):
    with hub.put("here", b"abcd") as array, hub.create_timeline("here:t") as steps:
        with hub.create_channel("here:c", "uint8", 1) as writer:
            with hub.open_channel("here:c") as reader, hub.connect_service("here:s") as client:
                with hub.create_bundle("here:b", {"a": ("uint8", 1)}) as bundle:
                    for one in (hub, array, bundle, bundle["a"], steps, writer, reader, client):
                        for call in (pickle.dumps, copy.copy, copy.deepcopy):
                            with pytest.raises(
                                TypeError, match="belongs to this process; pass its name"
                            ):
                                call(one)
        assert array.tobytes() == b"abcd"
