"""Channels: Python writes and Node reads, the other way round, and Python on both sides."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading

import pytest
from conftest import LIMIT, code, until

import cuda_ipc


def commit(writer, sequence: int, **options) -> int | None:
    with writer.loan(LIMIT) as slot:
        slot.data[:] = bytes([sequence % 251]) * len(slot.data)
        return slot.commit(meta=sequence, **options)


def read_all(reader, missed_at_end: int = 0) -> dict:
    wrong, sequences, counted = [], [], 0
    end = "closed"
    try:
        while (message := reader.next(LIMIT)) is not None:
            with message:
                if message.data != bytes([message.sequence % 251]) * message.byte_length:
                    wrong.append(message.sequence)
                if message.json != message.sequence:
                    wrong.append((message.sequence, message.json))
                sequences.append(message.sequence)
                counted += message.missed
    except cuda_ipc.CudaIpcError as error:
        end = error.code
    assert sequences == sorted(set(sequences))
    assert counted + missed_at_end == reader.missed
    return {
        "end": end,
        "wrong": wrong,
        "last": sequences[-1] if sequences else None,
        "received": reader.received,
        "missed": reader.missed,
    }


def test_all_kinds_of_shapes_sizes_and_meta_go_both_ways(hub, node):
    cases = [
        ({}, [2, 3], None, 12),
        ({"meta": {"größe": [1, None]}}, [2, 3], {"größe": [1, None]}, 12),
        ({"shape": [3, 1], "meta": 5}, [3, 1], 5, 6),
        ({"shape": [3, 2]}, [3, 2], None, 12),
        ({"byteLength": 4}, [2], None, 4),
        ({"byteLength": 0}, [0], None, 0),
        ({"shape": []}, [], None, 2),
    ]
    peer = node("channel", "follow", "from-node", json.dumps({"dtype": "int16", "shape": [2, 3]}))
    assert peer.said() == "open"
    with hub.open_channel("from-node") as reader:
        assert (reader.dtype, reader.shape, reader.slots) == ("int16", (2, 3), 8)
        for n, (options, shape, meta, size) in enumerate(cases):
            peer.tell({"fill": n, "options": options})
            with reader.next(LIMIT) as message:
                assert (message.sequence, message.missed) == (n, 0)
                assert (list(message.shape), message.json) == (shape, meta)
                assert message.data == bytes([n]) * size
                assert message.array.shape == tuple(shape)
                assert message.array.tobytes() == bytes([n]) * size
            assert peer.said() == "done"
            assert code(lambda message=message: message.data) == "CLOSED"
        peer.tell("close")
        assert reader.next(LIMIT) is None and reader.next(LIMIT) is None
    with hub.create_channel("from-python", "int16", (2, 3), slots=8) as writer:
        peer = node("channel", "read", "from-python", json.dumps({"all": True}))
        assert peer.said() == "reading"
        for n, (options, shape, meta, size) in enumerate(cases):
            spelled = {"byte_length" if k == "byteLength" else k: v for k, v in options.items()}
            with writer.loan(LIMIT) as slot:
                slot.data[:] = bytes([n]) * 12
                assert slot.commit(**spelled) == n
            said = peer.said()
            assert (said["sequence"], said["shape"]) == (n, shape)
            assert said["meta"] == ("" if meta is None else meta)
            assert said["first"] == (n if size else None) and said["same"]
        with writer.loan() as slot:
            slot.commit(meta=b"\0\xff")
        assert peer.said()["meta"] == "00ff"
    assert peer.said()["end"] == "closed"


def test_what_does_not_fit_is_refused_and_the_slot_stays(hub):
    with hub.create_channel("fits", "int16", 4, meta_bytes_max=4) as writer:
        slot = writer.loan()
        assert code(writer.loan) == "IN_USE"
        for wrong in ({"shape": 5}, {"byte_length": 10}, {"meta": "12345"}, {"meta": b"12345"}):
            assert code(lambda wrong=wrong: slot.commit(**wrong)) == "MESSAGE_TOO_LARGE"
        for wrong in ({"byte_length": 3}, {"shape": -1}, {"byte_length": -2}):
            with pytest.raises(ValueError):
                slot.commit(**wrong)
        with pytest.raises(TypeError):
            slot.commit(shape=1, byte_length=2)
        assert slot.commit(meta="12") == 0
        assert code(slot.commit) == "CLOSED"
        with writer.loan() as slot:
            pass
        assert writer.committed == 1, "a slot that was left is not sent"
        assert code(lambda: writer.send(bytes(9))) == "MESSAGE_TOO_LARGE"
        assert writer.send(bytes(8)) == 1
    assert code(writer.loan) == "CLOSED"
    with hub.create("taken", "int8", 1):
        assert code(lambda: hub.create_channel("taken", "int8", 1)) == "NAME_TAKEN"
        assert code(lambda: hub.create_timeline("taken")) == "NAME_TAKEN"
        assert code(lambda: hub.create_bundle("taken", {"a": ("int8", 1)})) == "NAME_TAKEN"
    for wrong in (
        {"slots": 0},
        {"readers_max": 65},
        {"when_full": "maybe"},
        {"meta_bytes_max": -1},
    ):
        with pytest.raises(ValueError):
            hub.create_channel("wrong", "int8", 1, **wrong)
    with pytest.raises(ValueError):
        hub.create_channel("wrong", "int8", 0)
    with pytest.raises(ValueError):
        hub.open_channel("wrong", start="now")
    assert hub.list() == []


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_node_writes_and_python_reads_in_order_without_loss(hub, node, slots):
    count = 2000
    peer = node("channel", "write", "n2p", json.dumps({"count": count, "slots": slots}))
    assert peer.said() == "open"
    with hub.open_channel("n2p") as reader:
        peer.tell()
        summary: list[dict] = []
        thread = threading.Thread(target=lambda: summary.append(read_all(reader)))
        thread.start()
        assert peer.said() == 0
        peer.tell()
        thread.join(LIMIT)
    wanted = {"end": "closed", "wrong": [], "last": count - 1, "received": count, "missed": 0}
    assert summary == [wanted]


@pytest.mark.parametrize("slots", [1, 2, 8])
def test_python_writes_and_node_reads_in_order_without_loss(hub, node, slots):
    count = 2000
    with hub.create_channel("p2n", "uint8", 64, slots=slots) as writer:
        peers = [node("channel", "read", "p2n") for _ in range(2)]
        assert [peer.said() for peer in peers] == ["reading"] * 2
        writer.wait_for_readers(2, LIMIT)
        for sequence in range(count):
            assert commit(writer, sequence) == sequence
    wanted = {"end": "closed", "wrong": [], "last": count - 1, "received": count, "missed": 0}
    assert [peer.said() for peer in peers] == [wanted] * 2


def test_a_lossy_reader_of_python_misses_what_node_went_over_and_nothing_else(hub, node):
    count = 3000
    for when_full, lossy in (("wait", True), ("drop-oldest", False)):
        options = {"count": count, "slots": 4, "whenFull": when_full}
        peer = node("channel", "write", f"over-{when_full}", json.dumps(options))
        assert peer.said() == "open"
        with hub.open_channel(f"over-{when_full}", lossy=lossy) as reader:
            assert reader.lossy
            peer.tell()
            assert peer.said() == 0, "the writer has waited for nobody"
            peer.tell()
            found = read_all(reader)
        assert (found["end"], found["wrong"], found["last"]) == ("closed", [], count - 1)
        assert found["received"] + found["missed"] == count and found["missed"] > 0


@pytest.mark.parametrize("end", ["closed", "PEER_GONE"])
def test_what_is_overwritten_after_the_last_message_counts_at_the_end(hub, node, end):
    name = f"rest:{end}"
    peer = node("channel", "follow", name, json.dumps({"byteLength": 64, "slots": 1}))
    assert peer.said() == "open"
    with hub.open_channel(name, lossy=True) as reader:
        # With one slot, the loan at the end takes away the last message.
        for order in ({"fill": 0}, {"fill": 1}, {"fill": 2}, {"fill": 3}, "loan"):
            peer.tell(order)
            assert peer.said() == "done"
            if order == {"fill": 0}:
                reader.next(LIMIT).release()
        assert (reader.try_next(), reader.missed) == (None, 0)
        if end == "closed":
            peer.tell("close")
            assert peer.said() == "done"
        else:
            peer.kill()
        for _ in range(2):
            assert read_all(reader, 3) == {
                "end": end,
                "wrong": [],
                "last": None,
                "received": 1,
                "missed": 3,
            }


def test_python_goes_over_a_lossy_reader_and_never_into_what_it_holds(hub, node):
    with hub.create_channel("held", "uint8", 64, slots=4) as writer:
        commit(writer, 0)
        peer = node("channel", "hold", "held", json.dumps({"lossy": True}))
        before = peer.said()
        for sequence in range(1, 50):
            commit(writer, sequence)
        peer.tell()
        assert peer.said() == before
        mine = hub.open_channel("held", start="latest", lossy=True)
        message = mine.try_next()
        for sequence in range(50, 100):
            commit(writer, sequence)
        assert message.sequence == 49 and message.data == bytes([49]) * 64
        message.release()
        with mine.next(LIMIT) as later:
            assert later.sequence - 50 == later.missed > 0
        held = [mine.next(LIMIT)]
        with pytest.raises(TimeoutError):
            while True:
                held.append(mine.next(0.01))
        assert all(one.data == bytes([one.sequence % 251]) * 64 for one in held)


def test_each_policy_of_a_full_channel(hub, patient_explanations):
    def full(when_full: str):
        writer = hub.create_channel(f"full-{when_full}", "uint8", 8, slots=2, when_full=when_full)
        reader = hub.open_channel(f"full-{when_full}")
        for sequence in range(2):
            commit(writer, sequence)
        return writer, reader

    writer, reader = full("wait")
    assert writer.try_loan() is None
    with pytest.raises(
        TimeoutError, match=r"reader 0 \(process \d+, pytest\) is 2 messages behind"
    ):
        writer.loan(0.01)
    writer.close()
    writer, reader = full("error")
    assert code(writer.loan) == "CHANNEL_FULL"
    with reader.next(LIMIT):
        pass
    assert commit(writer, 2) == 2
    writer.close()
    writer, reader = full("drop-newest")
    with writer.loan() as slot:
        slot.data[:] = bytes(8)
        assert slot.will_be_dropped and slot.commit() is None
    assert writer.try_loan() is None and writer.dropped == 2
    writer.close()
    assert [(m.sequence, bytes(m.data)) for m in reader] == [(0, bytes(8)), (1, b"\1" * 8)]
    assert writer.dropped == 2
    writer, reader = full("drop-oldest")
    for sequence in range(2, 20):
        assert commit(writer, sequence) == sequence
    with reader.next(LIMIT) as message:
        assert message.sequence == message.missed >= 17
    writer.close()


def test_a_reader_may_start_late(hub):
    writer = hub.create_channel("starts", "uint8", 8, slots=4)
    for sequence in range(10):
        commit(writer, sequence)
    for start, wanted in (("oldest", (6, 7)), ("latest", (9,)), ("next", (None,))):
        with hub.open_channel("starts", start=start) as reader:
            message = reader.try_next()
            assert (message and message.sequence) in wanted
            if message:
                message.release()
                message.release()
    writer.close()


def test_messages_whose_data_a_stream_has_not_written_yet_wait_for_them(hub, node):
    peer = node("channel", "stream", "streamed", json.dumps({"count": 20}))
    assert peer.said() == "open"
    with hub.open_channel("streamed") as reader:
        peer.tell()
        assert read_all(reader)["received"] == 20


def test_one_writer_at_a_time_and_the_next_goes_on(hub, node):
    writer = hub.create_channel("passed-on", "uint8", 64, when_writer_gone="wait", slots=4)
    assert code(lambda: hub.resume_channel("passed-on", wait=False)) == "IN_USE"
    with hub.open_channel("passed-on") as reader:
        commit(writer, 0)
        writer.close()
        peer = node("channel", "resume", "passed-on", json.dumps({"count": 2}))
        assert peer.said() == 3
        peer.tell()
        peer.finish()
        writer = hub.resume_channel("passed-on")
        assert writer.committed == 3
        commit(writer, 3)
        writer.end()
        assert read_all(reader) == {
            "end": "closed", "wrong": [], "last": 3, "received": 4, "missed": 0,
        }  # fmt: skip
    assert hub.list() == []


def test_wrong_kinds_and_places_have_their_codes(hub):
    with hub.put("array", b"x"), hub.create_timeline("timeline"):
        assert code(lambda: hub.open_channel("array")) == "WRONG_KIND"
        assert code(lambda: hub.open_timeline("array")) == "WRONG_KIND"
        assert code(lambda: hub.open("timeline")) == "WRONG_KIND"
        assert code(lambda: hub.open_bundle("array")) == "WRONG_KIND"
        assert code(lambda: hub.open_channel("nothing", wait=False)) == "NOT_FOUND"
    with hub.create_channel("one", "uint8", 1, readers_max=1):
        with hub.open_channel("one"):
            assert code(lambda: hub.open_channel("one")) == "READERS_FULL"
        hub.open_channel("one").close()
    assert hub.status()["leases"] == 0


def test_a_reader_that_writes_nonsense_is_expelled_without_effect_on_others(hub):
    from cuda_ipc._ring_words import P_RELEASED

    with hub.create_channel("nonsense", "uint8", 8, slots=2) as writer:
        liar, other = hub.open_channel("nonsense"), hub.open_channel("nonsense")
        liar._parts.page.store(P_RELEASED, 1 << 40)
        for sequence in range(6):
            commit(writer, sequence)
            with other.next(LIMIT) as message:
                assert message.sequence == sequence
        assert writer.readers == 1
        assert code(lambda: [liar.next(LIMIT) for _ in range(7)]) == "READER_EXPELLED"
        liar.close()
        other.close()


def test_a_control_file_that_makes_no_sense_is_refused(hub):
    from cuda_ipc._ring_words import HEADERS
    from cuda_ipc._ring_words import LIMIT as LIMIT_WORD

    for spoil in (
        lambda words: words.store(LIMIT_WORD, 0),
        lambda words: words.store(HEADERS, 99),
        lambda words: words.store(HEADERS + 1, -5),
        lambda words: words.store(HEADERS + 3, 1 << 40),
        lambda words: words.store(HEADERS + 4, 1 << 40),
        lambda words: words.write32(2 * HEADERS + 12, 1 << 20),
        lambda words: words.write32(2 * HEADERS + 11, 64),
    ):
        with hub.create_channel("spoilt", "uint8", 8, slots=2) as writer:
            commit(writer, 0)
            spoil(writer._parts.control)
            assert code(lambda: hub.open_channel("spoilt", start="oldest").next(LIMIT)) in (
                "CHANNEL_CORRUPT",
            )


@pytest.mark.parametrize("state", [5, 99, (1 << 31) - 1])
def test_an_unknown_state_of_the_writer_is_refused(hub, state):
    from cuda_ipc._ring_words import STATE

    with hub.create_channel("stateless", "uint8", 8) as writer:
        reader = hub.open_channel("stateless")
        writer._parts.control.store32(STATE, state)
        assert code(lambda: reader.next(LIMIT)) == "CHANNEL_CORRUPT"
        writer._parts.control.store32(STATE, 1)
        commit(writer, 0)
        with reader.next(LIMIT) as message:
            assert message.sequence == 0
        reader.close()


def test_asyncio_reads_and_writes_while_others_run(hub):
    async def scenario() -> list[int]:
        writer = hub.create_channel("async", "uint8", 4, slots=2)
        reader = await hub.open_channel_async("async")
        late = await asyncio.gather(reader.next_async(0.01), return_exceptions=True)
        assert isinstance(late[0], TimeoutError)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async def write() -> None:
            for n in range(50):
                await writer.send_async(bytes([n] * 4))
            writer.close()

        ticking = asyncio.ensure_future(tick())
        writing = asyncio.ensure_future(write())
        found = [message.data[0] async for message in reader]
        await writing
        ticking.cancel()
        assert ticks > 1
        cancelled = asyncio.ensure_future(hub.open_async("never", timeout=None))
        while hub.status()["waitingOpens"] == 0:
            await asyncio.sleep(0.001)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        while hub.status()["waitingOpens"] > 0:
            await asyncio.sleep(0.001)
        reader.close()
        return found

    assert asyncio.run(scenario()) == list(range(50))


def test_two_waits_on_one_reader_are_refused(hub):
    with hub.create_channel("twice", "uint8", 1) as writer, hub.open_channel("twice") as reader:
        thread = threading.Thread(target=lambda: reader.next(LIMIT))
        thread.start()
        until("it waits", lambda: reader._is_awaited)
        assert code(lambda: reader.next(LIMIT)) == "IN_USE"
        writer.send(b"x")
        thread.join(LIMIT)


def test_an_observer_counts_and_takes_no_seat(hub, node):
    with hub.create_channel("observed", "uint8", 4, slots=2, readers_max=1) as writer:
        with hub.observe_channel("observed") as observer:
            assert observer.statistics().readers == ()
            peer = node("channel", "read", "observed")
            assert peer.said() == "reading"
            for n in range(3):
                writer.send(bytes([n] * 4), n)
            writer.close()
            assert peer.said()["received"] == 3
            peer.finish()
            found = observer.statistics()
            assert (found.writer, found.writers, found.committed, found.dropped) == (
                "closed",
                1,
                3,
                0,
            )
            assert (found.dtype, found.shape, found.slots, found.readers_max) == (
                "uint8",
                (4,),
                2,
                1,
            )
        assert observer.closed
    with hub.create_channel("observed:now", "uint8", 4, slots=4) as writer:
        with hub.open_channel("observed:now", lossy=True) as reader:
            with hub.observe_channel("observed:now") as observer:
                writer.send(b"1234")
                writer.send(b"5678")
                reader.next(LIMIT).release()
                (one,) = observer.statistics().readers
                assert (one.place, one.lossy, one.behind, one.received, one.missed) == (
                    0,
                    True,
                    1,
                    1,
                    0,
                )
                assert not one.expelled


VALUES = (0, 1, 2, 3, 5, 99, -1, -5, 1 << 20, 1 << 31, 1 << 40, 2**53, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("spoilt", ["control", "page"])
def test_random_words_of_a_wrong_peer_give_only_the_errors_of_a_wrong_peer(hub, spoilt):
    from cuda_ipc._ring_words import HEADERS

    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")
    source = random.Random(seed)
    known = {"CHANNEL_CORRUPT", "READER_EXPELLED", "LIMIT_EXCEEDED", "PEER_GONE", "TIMEOUT"}
    known |= {"INVALID_DESCRIPTOR", "PROTOCOL_MISMATCH"}  # of an open
    found = set()

    def attempt(action):
        try:
            return action()
        except cuda_ipc.CudaIpcError as error:
            found.add(error.code)
            return None

    for _ in range(150):
        writer = hub.create_channel("wrong", "uint8", 8, slots=2)
        lossy = source.random() < 0.5
        reader = hub.open_channel("wrong", lossy=lossy)
        other = hub.open_channel("wrong", lossy=True) if spoilt == "page" else None
        for sequence in range(2):
            commit(writer, sequence)
        words = writer._parts.control if spoilt == "control" else reader._parts.page
        for _ in range(source.randint(1, 3)):
            # Half of them go where most words have a meaning.
            slot = source.randrange(2) * writer._ring._stride
            near = (HEADERS + slot if spoilt == "control" else 0) + source.randrange(16)
            at = source.choice([near, source.randrange(len(words.plain))])
            words.store(at, source.choice(VALUES))
        for _ in range(4):
            if spoilt == "page":
                attempt(lambda writer=writer: commit_at_once(writer))
            message = attempt(lambda reader=reader: reader.next(0))
            if message is not None:
                assert len(message.data) == message.byte_length <= 8
                assert message.array.shape == message.shape
                attempt(message.release)
            if other is not None and (message := other.try_next()) is not None:
                assert len(message.data) == 8
                message.release()
        if spoilt == "control":
            attempt(lambda: hub.open_channel("wrong", start="oldest", timeout=LIMIT).close())
        for one in (reader, other, writer):
            if one is not None:
                one.close(LIMIT)
    assert found <= known, found - known
    assert spoilt == "page" or "CHANNEL_CORRUPT" in found


def commit_at_once(writer) -> None:
    slot = writer.try_loan()
    if slot is not None:
        slot.commit()
