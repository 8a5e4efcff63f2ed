"""What another process sends is checked before it is used."""

from __future__ import annotations

import copy
import fcntl
import os
import random
import signal

import pytest

from cuda_ipc import CudaIpcError, _bell_signal
from cuda_ipc._bundle_index import Index, read_index, write_index
from cuda_ipc._descriptors import (
    channel_facts,
    checked_descriptor,
    make_descriptor,
    timeline_offset,
)
from cuda_ipc._fds import Bell
from cuda_ipc._group.messages import decode
from cuda_ipc._layout import Refused, checked_layout, packed_layout
from cuda_ipc._locks import is_locked, try_lock_file, unlock_file
from cuda_ipc._memory import check_file, create_file
from cuda_ipc._packets import parse_reply
from cuda_ipc._service.envelope import REPLY, Envelope

#: Deeper than Python can parse.
NESTED = b"[" * 50_000

GOOD = make_descriptor(
    None, 24, 4096, {"kind": "array", "array": packed_layout("float32", (2, 3)).spec()}
)


def opened(descriptor):
    place, content = checked_descriptor(descriptor)
    return checked_layout(content.get("array"), place.byte_length)


def changed(path, value):
    descriptor = copy.deepcopy(GOOD)
    at = descriptor
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return descriptor


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], 2),
        (["byteLength"], 4097),
        (["byteLength"], -1),
        (["byteLength"], True),
        (["allocationByteLength"], 0),
        (["allocationByteLength"], 2**60),
        (["device"], None),
        (["device"], {"kind": "cuda", "uuid": "GPU-1"}),
        (["mechanism"], "vmm"),
        (["content"], []),
        (["content", "array"], None),
        (["content", "array", "shape"], [2, 4]),
        (["content", "array", "shape"], [2]),
        (["content", "array", "shape"], [-2, 3]),
        (["content", "array", "shape"], [2**53, 3]),
        (["content", "array", "strides"], [3, 2]),
        (["content", "array", "strides"], [-3, 1]),
        (["content", "array", "strides"], "31"),
        (["content", "array", "byteOffset"], 2),
        (["content", "array", "byteOffset"], 4),
        (["content", "array", "byteOffset"], 1.0),
    ],
)
def test_a_descriptor_that_contradicts_itself_is_refused(path, value):
    assert opened(GOOD).shape == (2, 3)
    with pytest.raises(Refused):
        opened(changed(path, value))


def test_unknown_dtypes_and_pools_are_named():
    with pytest.raises(CudaIpcError) as unknown:
        opened(changed(["content", "array", "dtype"], "float4"))
    assert unknown.value.code == "UNSUPPORTED_DTYPE"
    with pytest.raises(CudaIpcError) as pooled:
        opened(changed(["mechanism"], "pool"))
    assert pooled.value.code == "UNSUPPORTED"


def test_random_documents_give_no_other_errors():
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")
    source = random.Random(seed)
    values = [None, True, -1, 0, 1, 2**53, 2**70, 1.5, "x", [], [1], {}, {"kind": "array"}, "memfd"]

    def spoil(value):
        if source.random() < 0.15:
            return source.choice(values)
        if isinstance(value, dict):
            return {key: spoil(one) for key, one in value.items() if source.random() > 0.03}
        if isinstance(value, list):
            return [spoil(one) for one in value]
        return value

    channel = {
        "kind": "channel", "dtype": "uint8", "shape": [4], "slots": 2, "readersMax": 1,
        "slotBytes": 4, "slotStride": 64, "metaBytesMax": 8, "whenFull": "wait",
        "whenWriterGone": "end",
    }  # fmt: skip
    whole = make_descriptor(None, 128, 4096, channel)
    line = make_descriptor(None, 128, 4096, {"kind": "timeline", "byteOffset": 64})
    for _ in range(3000):
        for good, use in ((GOOD, None), (whole, channel_facts), (line, timeline_offset)):
            document = spoil(good)
            try:
                if use is None:
                    opened(document)
                else:
                    place, content = checked_descriptor(document)
                    use(content, place)
            except (Refused, CudaIpcError):
                pass


def test_an_index_that_lies_is_refused():
    layouts = {"a": packed_layout("int32", 2)}
    fd, length = write_index(Index(layouts, {"k": "v"}))
    try:
        content = {"arrayCount": 1, "indexByteLength": length}
        assert read_index(content, fd, 8).layouts == layouts
        for wrong in ({"arrayCount": 2}, {"indexByteLength": length - 1}, {"arrayCount": None}):
            with pytest.raises(Refused):
                read_index({**content, **wrong}, fd, 8)
        with pytest.raises(Refused):
            read_index(content, fd, 4)
    finally:
        os.close(fd)
    spoilt = b'{"version":1,"metadata":{"a":1},"arrays":[]}'
    for text in (b"{}", b"[1]", b"\xff\xff", NESTED, spoilt):
        fd = create_file(len(text), text, 8)
        try:
            with pytest.raises(Refused):
                read_index({"arrayCount": 0, "indexByteLength": len(text)}, fd, 8)
        finally:
            os.close(fd)
    fd = create_file(2, b"{}")
    try:
        with pytest.raises(Refused, match="not sealed against writing"):
            read_index({"arrayCount": 0, "indexByteLength": 2}, fd, 8)
    finally:
        os.close(fd)


def test_an_index_with_more_lists_than_its_arrays_need_is_refused_before_it_is_parsed():
    def read(text: bytes, count: int) -> Index:
        fd = create_file(len(text), text, 8)
        try:
            content = {"arrayCount": count, "indexByteLength": len(text)}
            return read_index(content, fd, 8)
        finally:
            os.close(fd)

    # Not even JSON, so only a check before the parser can find it.
    with pytest.raises(Refused, match="the index has 7 lists and objects, 1 arrays need 6"):
        read(b"[[[[{{[", 1)
    with pytest.raises(Refused, match="131074 lists and objects"):
        read(b'{"x":"' + b"\\\\" * 40000 + b'","y":[' + b"[]," * 131072, 0)
    # Brackets in texts are none, also behind escapes and in a text of several pieces.
    for value in ("[[[[{", '"[[[[{', "\\\\[[[[{", 'a\\"[[[{' * 30000):
        index = Index({"a": packed_layout("int32", 2)}, {"k": value})
        fd, length = write_index(index)
        try:
            assert read_index({"arrayCount": 1, "indexByteLength": length}, fd, 8) == index
        finally:
            os.close(fd)


def test_memory_that_could_shrink_is_refused():
    fd = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, 4096)
        with pytest.raises(Refused, match="not sealed against resizing"):
            check_file(fd, 4096, "it")
    finally:
        os.close(fd)
    fd = create_file(4096)
    try:
        check_file(fd, 4096, "it")
        with pytest.raises(Refused, match="has 4096 bytes"):
            check_file(fd, 4097, "it")
    finally:
        os.close(fd)
    reader, writer = os.pipe()
    try:
        with pytest.raises(Refused, match="no memory file"):
            check_file(reader, 1, "it")
    finally:
        os.close(reader)
        os.close(writer)


def test_json_that_is_nested_too_deeply_is_refused():
    with pytest.raises(CudaIpcError) as reply:
        parse_reply(NESTED)
    assert reply.value.code == "INVALID_MESSAGE"
    with pytest.raises(CudaIpcError) as member:
        decode("a member", NESTED)
    assert member.value.code == "INVALID_MESSAGE"
    envelope = Envelope("service", bytes([REPLY, 1]) + bytes(22) + NESTED)
    with pytest.raises(CudaIpcError) as meta:
        _ = envelope.json
    assert meta.value.code == "CHANNEL_CORRUPT"


def test_a_bell_that_its_other_holder_makes_block_holds_up_nobody():
    def late(*_):
        raise AssertionError("a bell blocks")

    fd = os.eventfd(0, os.EFD_CLOEXEC)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    try:
        bell = Bell(fd)
        bell.silence()
        bell.ring()
        assert os.eventfd_read(fd) == 1
        os.eventfd_write(fd, 2**64 - 2)
        bell.ring()
        bell.silence()
        bell.silence()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        os.close(fd)


def test_without_aio_a_bell_that_is_filled_right_before_the_write_holds_up_nobody(monkeypatch):
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    write = os.eventfd_write

    def attacked(fd, value):
        os.set_blocking(fd, True)
        write(fd, 2**64 - 2)
        write(fd, value)

    def late(*_):
        raise AssertionError("a bell blocks")

    monkeypatch.setattr(_bell_signal, "signal_bell", lambda fd: False)
    monkeypatch.setattr(os, "eventfd_write", attacked)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    try:
        Bell(fd).ring()
        assert os.eventfd_read(fd) == 2**64 - 2
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        os.close(fd)


def test_a_bell_rings_without_aio_and_tries_it_again_later(monkeypatch):
    def refused():
        raise BlockingIOError("io_setup")

    written = []
    write = os.eventfd_write
    monkeypatch.setattr(os, "eventfd_write", lambda fd, n: (written.append(n), write(fd, n)))
    monkeypatch.setattr(_bell_signal, "_aio", None)
    monkeypatch.setattr(_bell_signal, "_rings_until_retry", 0)
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        bell = Bell(fd)
        with monkeypatch.context() as without:
            without.setattr(_bell_signal, "_Aio", refused)
            bell.ring()
        assert (len(written), os.eventfd_read(fd)) == (1, 1)
        for _ in range(64):
            bell.ring()
        assert len(written) == 65
        bell.ring()
        assert (len(written), os.eventfd_read(fd)) == (65, 65)
    finally:
        os.close(fd)


def test_a_bell_rings_in_a_child_of_a_process_that_has_rung():
    fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        bell = Bell(fd)
        bell.ring()
        child = os.fork()
        if child == 0:
            bell.ring()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.eventfd_read(fd) == 2
    finally:
        os.close(fd)


def test_a_look_at_the_lock_takes_no_lock_so_that_a_hub_can_start_meanwhile(tmp_path, monkeypatch):
    path = str(tmp_path / "hub.sock.lock")
    taken = []
    flock = fcntl.flock

    def counted(fd, operation):
        taken.append(operation)
        flock(fd, operation)

    lock = try_lock_file(path)
    assert lock is not None
    monkeypatch.setattr(fcntl, "flock", counted)
    assert is_locked(path)
    monkeypatch.undo()
    unlock_file(lock)
    monkeypatch.setattr(fcntl, "flock", counted)
    assert not is_locked(path)
    assert not is_locked(f"{path}.none")
    assert taken == []
