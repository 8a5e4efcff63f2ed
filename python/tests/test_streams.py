"""Channels in the order of streams: on a GPU, or on the libcuda of the tests that is written in C.

A gate holds each stream back, so what a test sees before it is opened has not waited for the GPU.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from conftest import HERE, LIMIT, until
from test_cuda import why_not

import cuda_ipc

pytestmark = [
    pytest.mark.skipif(why_not() != "", reason=why_not()),
    pytest.mark.usefixtures("ends_in_time"),
]

SIZE = 4096


@pytest.fixture
def gate(nothing_left_over: None) -> Iterator:
    from gpu_streams import Gate

    # The end of GPU memory waits for all streams. So earlier tests' ends before one of them waits,
    # and this one's not by a collection meanwhile.
    gc.collect()
    gc.disable()
    made = Gate()
    # A driver's call that waits for a stream is ended by nothing else.
    late = threading.Timer(LIMIT, made.open)
    late.start()
    yield made
    gc.enable()
    in_time = late.is_alive()
    late.cancel()
    late.join()
    made.close()
    assert in_time, f"the gate was opened because the test had not ended within {LIMIT:g} s"


@pytest.fixture
def new_stream(gate) -> Iterator[Callable]:
    from gpu_streams import GpuStream

    made = []

    def new():
        made.append(GpuStream())
        return made[-1]

    yield new
    gate.open()
    for stream in made:
        until("a stream is done", stream.is_idle)
        stream.close()


@pytest.fixture
def stream(new_stream):
    return new_stream()


class Own:
    """GPU memory of the test, all zero."""

    def __init__(self) -> None:
        from cuda_ipc._cuda import CudaAllocation, context_at

        self.memory: CudaAllocation | None = CudaAllocation(context_at(0), SIZE)
        self.memory.write(0, memoryview(bytes(SIZE)))
        self.address = self.memory.address

    def content(self) -> bytes:
        return self.memory.read(0, SIZE)


@pytest.fixture
def own(nothing_left_over: None) -> Iterator[Own]:
    made = Own()
    yield made
    made.memory = None


def channel(hub, name="streams", **options):
    return hub.create_channel(name, "uint8", SIZE, device="cuda:0", **{"slots": 2, **options})


def fill(slot, stream, value):
    from gpu_streams import address_of

    stream.fill(address_of(slot.array), value, SIZE)


def take(message, stream, own):
    from gpu_streams import address_of

    stream.copy(own.address, address_of(message.array), SIZE)


def test_a_message_is_ready_once_the_stream_of_its_commit_has_filled_it(hub, gate, stream):
    with channel(hub) as writer, hub.open_channel("streams") as reader, gate:
        slot = writer.loan(LIMIT)
        stream.wait(gate)
        fill(slot, stream, 7)
        assert slot.commit(meta=1, stream=stream) == 0
        assert reader.try_next() is None
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="stream of the writer"):
            reader.next(0.01)
        gate.open()
        until("the stream is done", stream.is_idle)
        with reader.next(LIMIT) as message:
            assert message.ready and message.json == 1
            assert message.array.tobytes() == b"\7" * SIZE


def test_the_stream_of_the_loan_is_that_of_the_commit(hub, gate, stream):
    with channel(hub) as writer, hub.open_channel("streams") as reader, gate:
        with writer.loan(LIMIT, stream=stream) as slot:
            stream.wait(gate)
            fill(slot, stream, 7)
            slot.commit()
        assert reader.try_next() is None
        gate.open()
        until("the stream is done", stream.is_idle)
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\7" * SIZE


def test_a_reader_s_stream_waits_for_the_data_on_the_gpu(hub, gate, new_stream, own):
    producing, consuming = new_stream(), new_stream()
    with channel(hub) as writer, hub.open_channel("streams", stream=consuming) as reader, gate:
        with writer.loan(LIMIT, stream=producing) as slot:
            producing.wait(gate)
            fill(slot, producing, 7)
            slot.commit()
        with reader.next(LIMIT) as message:
            assert not message.ready
            take(message, consuming, own)
        assert not consuming.is_idle()
        gate.open()
        until("the writer's stream is done", producing.is_idle)
        until("the reader's stream is done", consuming.is_idle)
        assert message.ready
        assert own.content() == b"\7" * SIZE


def test_a_loan_without_a_stream_waits_until_the_reader_s_stream_is_done(hub, gate, stream, own):
    with (
        channel(hub, slots=1) as writer,
        hub.open_channel("streams", stream=stream) as reader,
        gate,
    ):
        writer.send(b"\1" * SIZE)
        with reader.next(LIMIT) as message:
            stream.wait(gate)
            take(message, stream, own)
        assert writer.try_loan() is None
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="streams that use the next slot"):
            writer.loan(0.01)
        gate.open()
        until("the reader's stream is done", stream.is_idle)
        writer.send(b"\2" * SIZE, timeout=LIMIT)
        assert own.content() == b"\1" * SIZE


def test_a_writer_that_has_used_streams_waits_for_readers_without_one_too(hub, gate, new_stream):
    producing, consuming = new_stream(), new_stream()
    with (
        channel(hub, slots=1) as writer,
        hub.open_channel("streams", stream=consuming) as reader,
        gate,
    ):
        writer.send(b"\1" * SIZE, stream=producing)
        message = reader.next(LIMIT)
        consuming.wait(gate)
        message.release()
        assert writer.try_loan() is None
        gate.open()
        until("the reader's stream is done", consuming.is_idle)
        writer.send(b"\2" * SIZE, timeout=LIMIT)


def test_a_loan_for_a_stream_waits_for_the_reader_s_stream_on_the_gpu(hub, gate, new_stream, own):
    producing, consuming = new_stream(), new_stream()
    with channel(hub, slots=1) as writer, hub.open_channel("streams") as reader, gate:
        writer.send(b"\1" * SIZE)
        message = reader.next(LIMIT)
        consuming.wait(gate)
        take(message, consuming, own)
        message.release(stream=consuming)
        slot = writer.try_loan(stream=producing)
        assert slot is not None
        fill(slot, producing, 2)
        slot.commit()
        assert not producing.is_idle()
        gate.open()
        until("the reader's stream is done", consuming.is_idle)
        until("the writer's stream is done", producing.is_idle)
        assert own.content() == b"\1" * SIZE
        with reader.next(LIMIT) as second:
            assert second.array.tobytes() == b"\2" * SIZE


def test_messages_of_several_streams_are_ready_in_order(hub, gate, new_stream):
    slow, fast = new_stream(), new_stream()
    with channel(hub, slots=4) as writer, hub.open_channel("streams") as reader, gate:
        with writer.loan(stream=slow) as slot:
            slow.wait(gate)
            fill(slot, slow, 1)
            slot.commit()
        with writer.loan(stream=fast) as slot:
            fill(slot, fast, 2)
            slot.commit()
        assert not fast.is_idle() and reader.try_next() is None
        gate.open()
        until("the first stream is done", slow.is_idle)
        until("the second stream is done", fast.is_idle)
        for value in (1, 2):
            with reader.next(LIMIT) as message:
                assert message.array.tobytes() == bytes([value]) * SIZE


def test_slots_go_back_in_the_order_of_their_positions(hub, gate, stream):
    with (
        channel(hub, slots=2) as writer,
        hub.open_channel("streams", stream=stream) as reader,
        gate,
    ):
        for value in (1, 2):
            writer.send(bytes([value]) * SIZE)
        first, second = reader.next(LIMIT), reader.next(LIMIT)
        stream.wait(gate)
        second.release()
        assert writer.try_loan() is None, "the first one is held"
        gate.open()
        until("the stream is done", stream.is_idle)
        assert writer.try_loan() is None, "the first one is still held"
        first.release()
        until("the stream is done", stream.is_idle)
        for value in (3, 4):
            writer.send(bytes([value]) * SIZE, timeout=LIMIT)


def test_a_slot_that_a_stream_may_write_to_is_passed_over_if_it_is_not_committed(hub, gate, stream):
    with channel(hub, slots=2) as writer, hub.open_channel("streams") as reader, gate:
        with writer.loan(stream=stream) as slot:
            stream.wait(gate)
            fill(slot, stream, 9)
        writer.send(b"\1" * SIZE)
        with reader.next(LIMIT) as message:
            assert message.sequence == 0
            assert writer.try_loan() is None, "the stream still has the other slot"
            gate.open()
            until("the stream is done", stream.is_idle)
            assert message.array.tobytes() == b"\1" * SIZE
        writer.send(b"\2" * SIZE, timeout=LIMIT)
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\2" * SIZE


def test_a_lossy_reader_holds_at_most_8_slots_by_its_stream(hub, gate, stream):
    with channel(hub, slots=16) as writer, gate:
        with hub.open_channel("streams", stream=stream, lossy=True) as reader:
            stream.wait(gate)
            for value in range(10):
                writer.send(bytes([value]) * SIZE)
                message = reader.try_next()
                if message is not None:
                    message.release()
            assert reader.received == 8
            with pytest.raises(cuda_ipc.CudaIpcTimeout, match="streams hold all"):
                reader.next(0.01)
            # The writer goes past what is held.
            for value in range(10, 40):
                writer.send(bytes([value]) * SIZE, timeout=LIMIT)
            gate.open()
            until("the stream is done", stream.is_idle)
            with reader.next(LIMIT) as message:
                assert message.array.tobytes() == bytes([message.sequence]) * SIZE
                assert message.sequence == 8 + message.missed


def test_a_stream_orders_messages_in_host_memory_too(hub, gate, stream):
    with (
        hub.create_channel("streams", "int64", 1) as writer,
        hub.open_channel("streams") as reader,
        gate,
    ):
        stream.wait(gate)
        writer.send((5).to_bytes(8, "little"), stream=stream)
        assert reader.try_next() is None
        gate.open()
        until("the stream is done", stream.is_idle)
        with reader.next(LIMIT) as message:
            assert message.array.tolist() == [5]


def test_the_end_of_a_channel_waits_for_the_streams_of_its_writer(hub, gate, stream):
    writer = channel(hub)
    with hub.open_channel("streams") as reader, gate:
        with writer.loan(stream=stream) as slot:
            stream.wait(gate)
            fill(slot, stream, 7)
            slot.commit()
        late = threading.Timer(0.05, gate.open)
        late.start()
        writer.close()
        late.join()
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\7" * SIZE
        assert reader.next(LIMIT) is None


def test_a_stream_waits_for_another_one_that_may_write_to_the_slot(hub, gate, new_stream):
    slow, fast = new_stream(), new_stream()
    with channel(hub, slots=1) as writer, hub.open_channel("streams") as reader, gate:
        with writer.loan(LIMIT, stream=slow) as slot:
            slow.wait(gate)
            fill(slot, slow, 9)
        assert reader.try_next() is None, "it goes past what was not committed"
        with writer.loan(LIMIT, stream=fast) as slot:
            fill(slot, fast, 2)
            slot.commit()
        gate.open()
        until("the first stream is done", slow.is_idle)
        until("the second stream is done", fast.is_idle)
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\2" * SIZE


class Named:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_streams_of_frameworks_are_recognized_and_others_refused(hub, stream):
    handle = stream.handle
    accepted = [
        handle,
        0,
        1,
        Named(cuda_stream=handle, device=Named(index=0)),
        Named(cuda_stream=0, device=Named(index=0)),
        Named(ptr=handle),
        Named(__cuda_stream__=lambda: (0, handle)),
        Named(__cuda_stream__=(0, handle)),
    ]
    with channel(hub) as writer, hub.open_channel("streams") as reader:
        for one in accepted[:1] + accepted[3:]:
            with writer.loan(LIMIT, stream=one) as slot:
                slot.commit()
            with reader.next(LIMIT) as message:
                message.release(stream=one)
        for wrong in ("s", 1.5, True, object(), Named(ptr="x"), Named(cuda_stream=None)):
            with pytest.raises(TypeError, match="stream"):
                writer.loan(stream=wrong)
            with pytest.raises(TypeError, match="stream"):
                hub.open_channel("not there", stream=wrong)
        for wrong in (-1, 2**64, Named(__cuda_stream__=lambda: (1, handle))):
            with pytest.raises(ValueError, match="stream"):
                writer.try_loan(stream=wrong)
        with writer.loan(LIMIT) as slot:
            with pytest.raises(TypeError, match="stream"):
                slot.commit(stream="s")
            assert slot.commit() is not None, "it can be committed again"
        with reader.next(LIMIT) as message:
            with pytest.raises(TypeError, match="stream"):
                message.release(stream="s")
            assert not message.closed


WRITER = f"""
sys.path.insert(0, {str(HERE)!r})
from gpu_streams import Gate, GpuStream, address_of
gate, stream = Gate(), GpuStream()
name, gone = sys.argv[2:]
writer = hub.create_channel(name, "uint8", {SIZE}, slots=4, device="cuda:0", when_writer_gone=gone)
writer.wait_for_readers(1, 60)
writer.send(b"\\1" * {SIZE})
slot = writer.loan(60, stream=stream)
stream.wait(gate)
stream.fill(address_of(slot.array), 2, {SIZE})
slot.commit()
say("committed")
sys.stdin.readline()
"""


def test_a_writer_that_dies_with_work_in_flight_loses_that_message_alone(hub, python):
    peer = python(WRITER, "streams", "end")
    with hub.open_channel("streams", timeout=LIMIT) as reader:
        assert peer.said() == "committed"
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\1" * SIZE
        assert reader.try_next() is None
        peer.kill()
        with pytest.raises(cuda_ipc.CudaIpcError) as gone:
            reader.next(LIMIT)
        assert gone.value.code == "PEER_GONE"
        assert (reader.received, reader.missed) == (1, 1)


def test_a_reader_s_stream_goes_on_if_the_writer_dies_and_the_message_says_so(
    hub, python, stream, own
):
    peer = python(WRITER, "streams", "wait")
    with hub.open_channel("streams", stream=stream, timeout=LIMIT) as reader:
        assert peer.said() == "committed"
        reader.next(LIMIT).release()
        message = reader.next(LIMIT)
        take(message, stream, own)
        message.release()
        assert not message.ready and not stream.is_idle()
        peer.kill()
        until("the stream goes on", stream.is_idle)
        with pytest.raises(cuda_ipc.CudaIpcError) as gone:
            _ = message.ready
        assert gone.value.code == "PEER_GONE"
        with hub.resume_channel("streams", timeout=LIMIT) as writer:
            writer.send(b"\3" * SIZE)
            with reader.next(LIMIT) as after:
                assert after.missed == 1
                until("the stream goes on", stream.is_idle)
                assert after.array.tobytes() == b"\3" * SIZE
            assert (reader.received, reader.missed) == (2, 1)


READER = f"""
sys.path.insert(0, {str(HERE)!r})
from gpu_streams import Gate, GpuStream
gate, stream = Gate(), GpuStream()
reader = hub.open_channel("streams", stream=stream, timeout=60)
say("reading")
message = reader.next(60)
stream.wait(gate)
message.release()
say("released")
sys.stdin.readline()
"""


def test_a_reader_that_dies_with_work_in_flight_gives_its_slots_back(hub, python, stream):
    with channel(hub, slots=1) as writer:
        peer = python(READER)
        assert peer.said() == "reading"
        writer.send(b"\1" * SIZE)
        assert peer.said() == "released"
        assert writer.try_loan() is None
        with writer.loan(LIMIT, stream=stream) as slot:
            fill(slot, stream, 2)
            slot.commit()
        assert not stream.is_idle()
        peer.kill()
        until("the writer's stream goes on", stream.is_idle)
        writer.send(b"\3" * SIZE, timeout=LIMIT)


LEAVER = f"""
import threading
sys.path.insert(0, {str(HERE)!r})
from gpu_streams import Gate, GpuStream, address_of
gate, stream = Gate(), GpuStream()
writer = hub.create_channel("streams", "uint8", {SIZE}, device="cuda:0")
writer.wait_for_readers(1, 60)
slot = writer.loan(60, stream=stream)
stream.wait(gate)
stream.fill(address_of(slot.array), 2, {SIZE})
slot.commit()
threading.Timer(0.1, gate.open).start()
"""


def test_a_process_that_ends_without_a_close_waits_for_its_streams(hub, python):
    peer = python(LEAVER)
    with hub.open_channel("streams", timeout=LIMIT) as reader:
        with reader.next(LIMIT) as message:
            assert message.array.tobytes() == b"\2" * SIZE
        peer.finish()
