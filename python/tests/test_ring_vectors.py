"""docs/protocol/vectors/ring.json: the same words after each step as the library of Node writes."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from conftest import ROOT

from cuda_ipc import _protocol as p
from cuda_ipc._control import write_control
from cuda_ipc._descriptors import ChannelFacts
from cuda_ipc._dtypes import DTYPES
from cuda_ipc._memory import create_file
from cuda_ipc._ring_reader import RingReader
from cuda_ipc._ring_succession import take_over
from cuda_ipc._ring_words import LIMIT, LINE, PUBLISHED, READY, STATE
from cuda_ipc._ring_writer import RingWriter
from cuda_ipc._words import Words
from cuda_ipc.errors import CudaIpcError

VECTORS = json.loads((ROOT / "docs/protocol/vectors/ring.json").read_text())


class Chime:
    def __init__(self, rings: list[str], name: str) -> None:
        self.ring = lambda: rings.append(name)


def lines_of(view: memoryview) -> list[str]:
    found = []
    for at in range(0, len(view), 32):
        part = bytes(view[at : at + 32])
        if any(part):
            found.append(f"{at}: {part.hex()}")
    return found


@pytest.fixture
def ring(monkeypatch):
    facts = VECTORS["facts"]
    wanted = ChannelFacts(
        DTYPES["uint8"], (16,), facts["slots"], facts["readersMax"], facts["slotBytes"],
        facts["slotStride"], facts["metaBytesMax"], facts["whenFull"], facts["whenWriterGone"],
    )  # fmt: skip
    files = [create_file(VECTORS["freshControlFile"]["byteLength"]), create_file(p.PAGE_BYTES)]
    control, page = (Words(fd, os.fstat(fd).st_size, writable=True) for fd in files)
    monkeypatch.setattr("cuda_ipc._ring_writer.time.time", lambda: 0.0015)
    yield wanted, control, page
    control.close()
    page.close()
    for fd in files:
        os.close(fd)


def test_every_step_of_the_trace_changes_the_same_words(ring):
    facts, control, page = ring
    rings: list[str] = []
    steps = iter(VECTORS["trace"])
    words = {"control": bytes(len(control.bytes)), "page": bytes(len(page.bytes))}

    def step(text: str) -> None:
        """The words of the vectors are those that have changed, and the bells have rung."""
        wanted = next(steps)
        assert wanted["step"] == text
        now = {"control": bytes(control.bytes), "page": bytes(page.bytes)}
        image = {name: bytearray(before) for name, before in words.items()}
        for change in wanted["changes"]:
            write(image, change, facts)
        assert {name: bytes(one) for name, one in image.items()} == now, text
        assert rings == wanted["rings"], text
        rings.clear()
        words.update(now)

    write_control(control, facts)
    assert lines_of(control.bytes) == VECTORS["freshControlFile"]["lines"]
    step("the creator writes the control file")
    writer = RingWriter("trace", control, facts, 0, [page], [Chime(rings, "the reader's bell")])
    page.store(p.PAGE_LEASE // 8, 9)
    page.store(p.PAGE_DONE // 8, p.POISON)
    assert lines_of(page.bytes) == VECTORS["pageOfNewReader"]["lines"]
    step("the hub gives the place to a reader with lease 9")
    room = Chime(rings, "the room bell")
    reader = RingReader("trace", control, page, facts, 0, 0, 9, "next", False, room)
    step("the reader attaches: waited for, from next")
    assert writer.reserve()
    step("the writer reserves position 0")
    writer.commit(16, 0, b"", None)
    step("the writer commits 16 bytes")
    first = reader.try_take()
    step("the reader takes the message: it writes nothing")
    assert writer.reserve()
    writer.commit(2, p.FLAG_JSON, b"[1]", (2,))
    at = p.HEADERS_AT + facts.header_stride
    header = control.bytes[at : at + facts.header_stride]
    assert lines_of(header) == VECTORS["headerOfMessage"]["lines"]
    step("the writer commits 2 bytes with a shape and meta [1]")
    assert not writer.reserve()
    step("the writer finds no free slot")
    writer.fall_asleep()
    step("the writer says that it sleeps, and looks once more")
    reader.release(first)
    step("the reader gives the first message back")
    writer.wake_up()
    assert writer.reserve()
    step("the writer wakes, and reserves position 2")
    second = reader.try_take()
    assert (second.meta, second.own_shape) == (b"[1]", (2,))
    reader.release(second)
    step("the reader takes the second message, and gives it back")
    reader.fall_asleep()
    step("the reader says that it sleeps, and looks once more")
    writer._go_past()
    writer.wake_readers()
    step("the writer passes position 2 over")
    reader.wake_up()
    assert reader.try_take() is None
    step("the reader wakes, finds no message at position 2, and goes past it")
    reader.leave()
    step("the reader leaves")


def write(image: dict[str, bytearray], change: str, facts: ChannelFacts) -> None:
    """`header 1.shape[0] = 2`: puts the word into the image."""
    target, _, value = change.partition(" = ")
    where, _, field = target.partition(".")
    name, _, index = field.rstrip("]").partition("[")
    prefix = {"control": "CONTROL", "page": "PAGE"}.get(where, "HEADER")
    upper = "".join("_" + c if c.isupper() else c for c in name).upper()
    at = getattr(p, f"{prefix}_{upper}")
    small = upper in [
        "MAGIC",
        "VERSION",
        "SLOTS",
        "READERS_MAX",
        "META_BYTES_MAX",
        "HEADERS_AT",
        "HEADER_STRIDE",
        "WHEN_FULL",
        "WHEN_WRITER_GONE",
        "STATE",
        "EPOCH",
        "ASLEEP",
        "MODE",
        "FLAGS",
        "META_BYTES",
        "RANK",
    ]
    size = 4 if small else 8
    at += size * int(index or 0)
    if prefix == "HEADER":
        at += p.HEADERS_AT + int(where.split()[1]) * facts.header_stride
    raw = (
        __import__("struct").pack("<d", float(value))
        if upper == "TIMESTAMP_MS"
        else int(value).to_bytes(size, "little", signed=False)
    )
    file = image["page" if where == "page" else "control"]
    file[at : at + size] = raw
    if (where.startswith("header") and upper == "GENERATION") or prefix == "HEADER":
        # The meta bytes are no word of the trace.
        meta = p.HEADERS_AT + int(where.split()[1]) * facts.header_stride + p.HEADER_META
        if upper == "META_BYTES":
            file[meta : meta + 3] = b"[1]"


class Lying:
    """The words of a writer that says other things during some loads."""

    def __init__(self, longs, lies: range) -> None:
        self._longs = longs
        self._lies = lies
        self.loads = 0

    def __getitem__(self, index: int) -> int:
        self.loads += 1
        assert self.loads < 1000, "it goes on and on"
        if self.loads in self._lies and index in (LIMIT, PUBLISHED):
            return 2**52
        return self._longs[index]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_reader_that_attaches_needs_few_steps_whatever_the_words_say(ring, count):
    facts, control, page = ring
    write_control(control, facts)
    writer = RingWriter("lies", control, facts, 0, [], [])
    for _ in range(9):
        assert writer.reserve()
        writer.commit(1, 0, b"", (1,))
    longs = control.longs
    at = 0
    while True:
        at += 1
        control.longs = lying = Lying(longs, range(at, at + count))
        with contextlib.suppress(CudaIpcError):
            RingReader(
                "lies", control, page, facts, 0, 0, 9, "next", True, Chime([], "the room bell")
            )
        if lying.loads < at:
            break
    control.longs = longs
    assert at > 5


def test_a_message_is_lost_also_if_another_writer_uses_its_timeline(ring):
    facts, control, page = ring
    write_control(control, facts)
    writer = RingWriter("lost", control, facts, 0, [page], [Chime([], "the bell")])
    reader = RingReader(
        "lost", control, page, facts, 0, 0, 9, "next", False, Chime([], "the room bell")
    )
    assert writer.reserve()
    writer.commit(1, 0, b"", (1,), ready_at=1)
    taken = reader.try_take()
    assert reader.readiness(taken) is False
    for epoch in range(p.READY_LINES):
        line = READY + LINE * epoch
        control.store(line + 1, control.longs[line])
        control.store(line, p.POISON)
        control.store32(STATE, p.WRITER_AWAITED)
        take_over("lost", control, facts, 0)
        assert reader.readiness(taken) is None
