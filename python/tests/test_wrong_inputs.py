"""Wrong inputs of users: each is refused at once, by a sentence that a stranger understands."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import re

import pytest
from conftest import LIMIT, code

import cuda_ipc

numpy = pytest.importorskip("numpy")
ONE = ("uint8", 1)


def refused(kind, message, call):
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_a_shape_that_cannot_be_says_why(hub):
    refused(ValueError, "integers from 0 up, not (-1,)", lambda: hub.create("s", "int8", -1))
    refused(ValueError, "integers from 0 up, not (2, -3)", lambda: hub.create("s", "int8", (2, -3)))
    more = f"has {2**80} elements, more than are possible"
    refused(ValueError, more, lambda: hub.create("s", "int8", (2**40, 2**40)))


def test_dtypes_without_numbers_are_named_as_numpy_names_them(hub):
    for dtype in (
        numpy.dtype(object),
        numpy.dtype([("a", "i4"), ("b", "f4")]),
        numpy.dtype("M8[ns]"),
        numpy.dtype("U5"),
        numpy.dtype("S5"),
    ):
        message = f"Cannot use {dtype!r}: its elements are no plain numbers"
        refused(cuda_ipc.CudaIpcError, message, lambda dtype=dtype: hub.create("d", dtype, 3))
        values = numpy.zeros(3, dtype)
        refused(cuda_ipc.CudaIpcError, message, lambda values=values: hub.put("d", values))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    hub.create("d", ml_dtypes.bfloat16, 3).close()
    hub.create("d", numpy.dtype(ml_dtypes.float8_e5m2), 3).close()


def test_a_flag_is_true_or_false(hub):
    says = 'must be True or False, not "no"'.replace('"', "'")
    refused(TypeError, f"pinned {says}", lambda: hub.create("f", *ONE, pinned="no"))
    refused(TypeError, f"pinned {says}", lambda: hub.put("f", b"1", pinned="no"))
    refused(TypeError, f"pinned {says}", lambda: hub.share("f", numpy.ones(2), pinned="no"))
    refused(TypeError, f"copy {says}", lambda: hub.share("f", numpy.ones(2), copy="no"))
    refused(TypeError, f"pinned {says}", lambda: hub.create_bundle("f", {"a": ONE}, pinned="no"))
    refused(TypeError, f"pinned {says}", lambda: hub.create_channel("f", *ONE, pinned="no"))
    refused(TypeError, f"preallocate {says}", lambda: hub.create("f", *ONE, preallocate="no"))
    refused(TypeError, f"wait {says}", lambda: hub.open("f", wait="no", timeout=LIMIT))
    refused(TypeError, f"wait {says}", lambda: hub.open_timeline("f", wait="no", timeout=LIMIT))
    refused(TypeError, f"lossy {says}", lambda: hub.open_channel("f", lossy="no", timeout=LIMIT))
    assert hub.list() == []


CREATES = {
    "create": lambda hub, **options: hub.create("o", *ONE, **options),
    "create_bundle": lambda hub, **options: hub.create_bundle("o", {"a": ONE}, **options),
    "create_channel": lambda hub, **options: hub.create_channel("o", *ONE, **options),
    "put": lambda hub, **options: hub.put("o", b"1", **options),
    "share": lambda hub, **options: hub.share("o", numpy.ones(1), **options),
    "create_timeline": lambda hub, **options: hub.create_timeline("o", **options),
    "serve": lambda hub, **options: hub.serve("o", lambda *_: None, request=ONE, **options),
    "connect_service": lambda hub, **options: hub.connect_service("o", **options),
}


@pytest.mark.parametrize("name", CREATES)
def test_options_of_new_objects_are_checked_at_the_call(hub, name):
    such = 'sharing must be such as {"with": "group"}, not '
    keys = "sharing has no option 'wiht'; it has with, access and machines"
    for value, kind, message in (
        ("all", TypeError, such + "'all'"),
        ({}, TypeError, such + "{}"),
        ({"access": "read"}, TypeError, such + "{'access': 'read'}"),
        ({"wiht": "all"}, TypeError, keys),
        ({"with": "al"}, ValueError, "sharing with must be one of private, group, all, not 'al'"),
        ({"with": "all", "machines": 1}, TypeError, "machines must be True or False, not 1"),
        ({"with": "all", "access": 1}, ValueError, "access must be one of read, read-write, not 1"),
    ):
        refused(kind, message, lambda value=value: CREATES[name](hub, sharing=value))
    for option, kind, message in (
        ("replace", ValueError, 'replace must be True, False or "any", not '),
        ("preallocate", TypeError, "preallocate must be True or False, not "),
    ):
        if "service" in name or name == "serve":
            message = f'{name}() has no argument "{option}"'
            refused(TypeError, message, lambda option=option: CREATES[name](hub, **{option: True}))
        elif name != "create_timeline" or option == "replace":
            for value in (None, 1, "yes", []):
                words, given = f"{message}{value!r}", {option: value}
                refused(kind, words, lambda given=given: CREATES[name](hub, **given))
    assert hub.list() == []


def test_forms_for_asyncio_refuse_what_their_calls_refuse_and_hold_nothing(hub):
    async def main():
        with (
            hub.create_channel("forms", *ONE, slots=1) as writer,
            hub.open_channel("forms") as reader,
            hub.create("forms:array", *ONE) as array,
        ):
            slot = writer.loan()
            for given, kind, message in (
                ({"shape": -1}, ValueError, "shape must be integers from 0 up, not (-1,)"),
                ({"shape": "a"}, TypeError, "shape must be integers, not 'a'"),
                ({"byte_length": "1"}, TypeError, "byte_length must be an integer, not '1'"),
                ({"byte_length": True}, TypeError, "byte_length must be an integer, not True"),
                ({"byte_length": -1}, ValueError, "byte_length -1 is no whole number of uint8"),
                ({"byte_length": 1, "shape": 1}, TypeError, "either a shape or a byte_length"),
                ({"meta": {1}}, TypeError, "meta (if not bytes) must be a value that JSON can"),
                ({"stream": "s"}, TypeError, "stream must be a stream of PyTorch, CuPy or"),
            ):
                with pytest.raises(kind, match=re.escape(message)):
                    await slot.commit_async(**given)
            assert await slot.commit_async() == 0
            message = reader.next(LIMIT)
            with pytest.raises(TypeError, match="stream must be a stream of PyTorch, CuPy or"):
                await message.release_async(stream=b"1")
            assert not message.closed
            await message.release_async()
            writer.send(b"2", timeout=LIMIT)
            with pytest.raises(TypeError, match="encode\\(\\) makes bytes of it"):
                await array.write_async("abc")
            with pytest.raises(ValueError, match="2 bytes for an array of 1 bytes"):
                await array.write_async(b"12")

    asyncio.run(main())


def test_what_is_no_data_says_what_makes_data_of_it(hub, tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    with (
        hub.create_channel("data", *ONE) as writer,
        hub.create("data:array", *ONE) as array,
        open(tmp_path / "file") as file,
    ):
        for give in (lambda data: hub.put("data:put", data), writer.send, array.write):
            refused(TypeError, "not str; encode() makes bytes of it", lambda give=give: give("abc"))
            for data in (5, [1, 2], (1.5,)):
                message = "; numpy.asarray() makes an array of numbers"
                refused(TypeError, message, lambda give=give, data=data: give(data))
            for data in (tmp_path / "file", file):
                message = "; read its bytes, or use `cuda-ipc put`"
                refused(TypeError, message, lambda give=give, data=data: give(data))
            with pytest.raises(TypeError, match=r"a buffer, not (NoneType|object)$"):
                give(None)
            with pytest.raises(TypeError, match=r"a buffer, not (NoneType|object)$"):
                give(object())


def test_pointers_of_python_objects_are_never_sent(hub):
    with (
        hub.create_channel("pointers", "uint8", 64) as writer,
        hub.serve("pointers", lambda request, reply: None, request=("uint8", 64)),
        hub.connect_service("pointers") as client,
    ):
        for values in (numpy.array([None]), numpy.zeros(2, [("a", "i4"), ("b", "O")])):
            for call in (writer.send, client.request):
                message = "data are objects of Python, which only this process can use"
                refused(TypeError, message, lambda call=call, values=values: call(values))
        assert writer.committed == 0
        # A structure of numbers holds no pointers, so it is taken.
        writer.send(numpy.zeros(2, [("a", "i4"), ("b", "f4")]))


def test_meta_that_is_no_json_is_named(hub):
    itself: list = []
    itself.append(itself)
    says = "meta (if not bytes) must be a value that JSON can have: "
    with hub.create_channel("meta", *ONE, slots=2) as writer:
        for kind, meta, why in (
            (TypeError, {1, 2}, "Object of type set is not JSON serializable"),
            (TypeError, {"a": numpy.float32(1)}, "Object of type float32 is not JSON serializable"),
            (ValueError, float("nan"), "Out of range float values are not JSON compliant"),
            (ValueError, itself, "Circular reference detected"),
            (ValueError, "\ud800", "surrogates not allowed"),
        ):
            with pytest.raises(kind, match=f"{re.escape(says)}.*{re.escape(why)}"):
                writer.send(b"1", meta=meta)
        assert writer.committed == 0 and writer.send(b"1", meta="fits") == 0
    with cuda_ipc.Group.join(f"meta-{os.getpid()}", rank=0, size=1) as group:
        refused(
            TypeError, "value must be a value that JSON can have", lambda: group.all_gather({1})
        )


def test_arrays_of_a_bundle_come_by_name(hub):
    message = "arrays must be (dtype, shape) by name"
    refused(TypeError, f"{message}, such as {{'w': ", lambda: hub.create_bundle("b", [("w", ONE)]))
    refused(TypeError, message, lambda: hub.create_bundle("b", None))


@pytest.mark.parametrize("count", ["1", 1.5, None, True])
def test_a_number_of_readers_is_an_integer(hub, count):
    with hub.create_channel("count", *ONE) as writer:
        message = f"count must be an integer, not {count!r}"
        refused(TypeError, message, lambda: writer.wait_for_readers(count, LIMIT))
        refused(ValueError, "from 0 to 8, not 9", lambda: writer.wait_for_readers(9, LIMIT))


def test_no_copy_gives_back_what_the_original_holds(hub):
    def handler(request, reply):
        for each in (request, reply):
            with pytest.raises(TypeError, match="Cannot pickle or copy a"):
                copy.copy(each)
        slot = reply.loan()
        with pytest.raises(TypeError, match="Cannot pickle or copy a SlotToFill"):
            copy.copy(slot)
        slot.write(b"2")

    with (
        hub.create_channel("copies", *ONE, slots=2) as writer,
        hub.open_channel("copies") as reader,
        hub.serve("copies", handler, request=ONE, reply=ONE),
        hub.connect_service("copies") as client,
    ):
        writer.send(b"1")
        message, slot = reader.next(LIMIT), writer.loan(LIMIT)
        reply = client.request(b"1", timeout=LIMIT)
        for each in (message, slot, reply):
            says = f"Cannot pickle or copy a {type(each).__name__}: its slot belongs to a channel"
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                refused(TypeError, says, lambda call=call, each=each: call(each))
        assert bytes(message.data) == b"1" and bytes(reply.data) == b"2"
        assert slot.commit() == 1
        message.release()
        reply.release()
        assert code(lambda: message.data) == "CLOSED"
