"""docs/protocol/vectors: messages, descriptors, lines and a session, byte for byte as in Node."""

from __future__ import annotations

import array as arrays
import contextlib
import json
import os
import re
import socket as sockets
import threading
from typing import Any

import pytest
from conftest import LIMIT, ROOT

import cuda_ipc
from cuda_ipc import CudaIpcError
from cuda_ipc import _protocol as p
from cuda_ipc._descriptors import (
    channel_facts,
    checked_descriptor,
    make_descriptor,
    timeline_offset,
)
from cuda_ipc._json import encode_json
from cuda_ipc._layout import Refused, checked_layout
from cuda_ipc._legacy import OwnedMemory
from cuda_ipc._memory import create_file
from cuda_ipc._packets import parse_reply
from cuda_ipc._socket_twin import _twin_name
from cuda_ipc._words import Words
from cuda_ipc.timelines import end_timeline


def vectors(name: str) -> Any:
    return json.loads((ROOT / f"docs/protocol/vectors/{name}.json").read_text())


def lines_of(data: bytes) -> list[str]:
    found = []
    for at in range(0, len(data), 32):
        part = data[at : at + 32]
        if any(part):
            found.append(f"{at}: {part.hex()}")
    return found


def file_lines(fd: int) -> list[str]:
    return lines_of(os.pread(fd, os.fstat(fd).st_size, 0))


@pytest.mark.parametrize("one", vectors("socket-paths")["paths"], ids=lambda one: one["given"])
def test_the_path_of_a_socket_and_its_twin_are_those_of_the_others(one, monkeypatch):
    monkeypatch.chdir("/")
    path = cuda_ipc.hub_socket_path(one["given"])
    assert path == one["path"]
    assert _twin_name(path).rpartition("/")[2] == one["hash"]


# ---------------------------------------------------------------- messages and descriptors


def test_each_reply_is_read_and_would_be_written_the_same():
    found = vectors("messages")
    replies = [reply["text"] for reply in found["replies"]] + found["refusals"]
    for text in replies:
        assert encode_json(parse_reply(text.encode())).decode() == text
    for text in found["requests"]:
        assert encode_json(json.loads(text)).decode() == text


def rewritten(descriptor: dict[str, Any]) -> dict[str, Any]:
    """What this package makes of what it read."""
    source, content = checked_descriptor(descriptor)
    if content["kind"] == "array":
        layout = checked_layout(content["array"], source.byte_length)
        content = {"kind": "array", "array": layout.spec()}
    elif content["kind"] == "channel":
        content = channel_facts(content, source).content()
    elif content["kind"] == "timeline":
        content = {"kind": "timeline", "byteOffset": timeline_offset(content, source)}
    return make_descriptor(
        source.uuid, source.byte_length, source.allocation_byte_length, content, source.handle
    )


@pytest.mark.parametrize("one", vectors("descriptors")["taken"], ids=lambda one: one["what"])
def test_a_descriptor_is_read_and_written_the_same(one):
    if one["what"] == "an array in memory of a pool":
        with pytest.raises(CudaIpcError) as pooled:
            rewritten(json.loads(one["text"]))
        assert pooled.value.code == "UNSUPPORTED"
        return
    document = json.loads(one["text"])
    # Of which machine it is a copy means nothing to those who open it.
    document.pop("replicaOf", None)
    assert encode_json(rewritten(document)) == encode_json(document)


@pytest.mark.parametrize("one", vectors("descriptors")["refused"], ids=lambda one: one["what"])
def test_a_descriptor_that_contradicts_itself_is_refused(one):
    with pytest.raises((Refused, CudaIpcError)):
        rewritten(json.loads(one["text"]))


# ---------------------------------------------------------------- lines


@pytest.fixture
def words():
    fd = create_file(4096)
    found = Words(fd, 4096, writable=True)
    yield found
    found.close()
    os.close(fd)


@pytest.mark.parametrize("name", ["timeline", "timelineOfDeadOwner"])
def test_a_timeline_has_the_same_line_after_each_step(words, name):
    found = vectors("lines")[name]
    at = found["byteOffset"] // 8
    for step in found["steps"]:
        if step["ended"]:
            end_timeline(words, at)
        elif step["value"] != "0":
            words.store(at, int(step["value"]))
        assert lines_of(bytes(words.bytes)) == step["lines"], step["step"]
        ended = words.longs[at] == p.POISON
        assert ended == step["ended"], step["step"]
        assert str(words.longs[at + 1] if ended else words.longs[at]) == step["value"]


def test_the_mark_of_legacy_memory_has_the_same_line_after_each_step():
    fresh, *ended = vectors("lines")["mark"]["steps"]
    memory = OwnedMemory(object(), bytes(64))  # type: ignore[arg-type]
    try:
        assert file_lines(memory.fd) == fresh["lines"]
        for step in ended:
            memory.end()
            assert file_lines(memory.fd) == step["lines"], step["step"]
    finally:
        os.close(memory.fd)


# ---------------------------------------------------------------- a session


class ScriptedHub:
    """Expects the requests of the session, byte for byte, and gives its replies."""

    def __init__(self, path: str, steps: list[dict[str, Any]]) -> None:
        self.heard = threading.Semaphore(0)
        self.wrong: list[str] = []
        self.files: list[int] = []
        self._exchanges = [one for step in steps for one in step["exchanges"]]
        self._listener = sockets.socket(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        self._connection = connection
        with connection:
            for exchange in self._exchanges:
                try:
                    self._exchange(connection, exchange)
                except BaseException as wrong:
                    self.wrong.append(repr(wrong))
                    return
                finally:
                    self.heard.release()

    def _exchange(self, connection: sockets.socket, exchange: dict[str, Any]) -> None:
        packet, fds, _, _ = sockets.recv_fds(connection, p.LIMIT_MESSAGE_BYTES, p.LIMIT_FDS)
        # Who asks differs from program to program.
        client = r'"client":\{"version":"[^"]*","program":"[^"]*"\}'
        alike = '"client":{"version":"1.0.0","program":"example"}'
        assert re.sub(client, alike, packet.decode()) == exchange["request"]
        assert len(fds) == exchange["fds"]
        if fds:
            self._close_files()
            self.files = fds
        reply = json.loads(exchange["reply"])
        if "place" in reply.get("result", {}):
            self._give_place(self.files[3], reply["result"]["lease"])
        given = [self._for_reading(at) for at in exchange["replyFds"]]
        try:
            rights = [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, arrays.array("i", given))]
            connection.sendmsg([exchange["reply"].encode()], rights if given else [])
        finally:
            for fd in set(given) - set(self.files):
                os.close(fd)

    def _for_reading(self, at: int) -> int:
        fd = self.files[at]
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC) if at < 2 else fd

    def _give_place(self, page: int, lease: int) -> None:
        os.pwrite(page, p.POISON.to_bytes(8, "little"), p.PAGE_DONE)
        os.pwrite(page, lease.to_bytes(8, "little"), p.PAGE_LEASE)

    def _close_files(self) -> None:
        for fd in self.files:
            os.close(fd)
        self.files = []

    def close(self) -> None:
        # A session that went wrong is over.
        with contextlib.suppress(OSError):
            self._listener.shutdown(sockets.SHUT_RDWR)
            self._connection.shutdown(sockets.SHUT_RDWR)
        self._thread.join(LIMIT)
        self._listener.close()
        self._close_files()


def calls():
    """What this package does at each step of the session."""
    hub = cuda_ipc.connect(os.environ["CUDA_IPC_SOCKET"], start=False)
    yield "connect"
    numbers = arrays.array("f", [1, 2, 3, 4, 5, 6])
    mine = hub.put("numbers", numbers, shape=(2, 3), pinned=True)
    yield 'put the float32 array [[1, 2, 3], [4, 5, 6]] as "numbers", pinned'
    opened = hub.open("numbers", wait=False)
    assert opened.tobytes() == numbers.tobytes()
    yield 'open "numbers", without waiting'
    opened.close()
    yield "close what was opened"
    with pytest.raises(CudaIpcError) as missing:
        hub.open("missing", wait=False)
    assert missing.value.code == "NOT_FOUND"
    yield 'open "missing", without waiting'
    hub.remove("numbers")
    yield 'remove "numbers"'
    mine.close()
    yield 'close "numbers"'
    layers = {"b": ("uint8", 3), "none": ("int64", (2, 0))}
    bundle = hub.create_bundle("layers", layers, metadata={"by": "me"})
    yield 'create the bundle "layers": b, uint8 [3], and none, int64 [2, 0]; metadata {"by": "me"}'
    bundle.close()
    yield "close the bundle"
    clock = hub.create_timeline("clock")
    clock.signal(5)
    yield 'create the timeline "clock", and signal 5'
    clock.close()
    yield "close the timeline"
    writer = hub.create_channel("frames", "uint8", 16, slots=2, readers_max=1, meta_bytes_max=8)
    yield 'create the channel "frames": uint8 [16], 2 slots, 1 reader, 8 bytes of meta'
    reader = hub.open_channel("frames")
    yield 'open "frames" for reading, from the next message'
    reader.close()
    yield "close the reader"
    writer.close()
    yield "close the writer"
    hub.close()
    yield "leave the hub"


def test_a_session_has_the_same_requests_and_files(tmp_path, monkeypatch):
    path = str(tmp_path / "hub.sock")
    tmp_path.chmod(0o700)
    monkeypatch.setenv("CUDA_IPC_SOCKET", path)
    steps = vectors("session")["steps"]
    hub = ScriptedHub(path, steps)
    going = calls()
    try:
        for step in steps:
            with contextlib.suppress(StopIteration):
                assert next(going) == step["call"]
            for _ in step["exchanges"]:
                assert hub.heard.acquire(timeout=LIMIT)
            assert hub.wrong == []
            for at, lines in step.get("files", {}).items():
                assert file_lines(hub.files[int(at)]) == lines, step["call"]
        assert list(going) == []
    finally:
        going.close()
        hub.close()
