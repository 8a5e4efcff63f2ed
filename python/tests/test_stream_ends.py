"""Streams at a channel: what is stored in which order, limits, asyncio, and devices that fail."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
from conftest import HERE, LIMIT, code, interrupted, until
from test_cuda import why_not
from test_streams import SIZE, Named, channel, fill, gate, new_stream, own, stream, take

import cuda_ipc

__all__ = ["gate", "new_stream", "own", "stream"]  # fixtures

pytestmark = [
    pytest.mark.skipif(why_not() != "", reason=why_not()),
    pytest.mark.usefixtures("ends_in_time"),
]


@pytest.fixture
def stores(monkeypatch) -> list:
    """Each word that is stored, and each that a stream is told to write: (words, index, value)."""
    from cuda_ipc._cuda_streams import StreamWords
    from cuda_ipc._words import Words

    found: list = []
    store, write = Words.store, StreamWords.write

    def stored(words, index, value):
        found.append((words, index, value))
        store(words, index, value)

    def enqueued(words, by, index, value):
        found.append((words._words, "stream", index, value))
        write(words, by, index, value)

    monkeypatch.setattr(Words, "store", stored)
    monkeypatch.setattr(StreamWords, "write", enqueued)
    return found


def test_a_release_enqueues_its_signal_then_stores_gpu_released_then_released(hub, stores, stream):
    from cuda_ipc._ring_words import P_DONE, P_GPU_RELEASED, P_RELEASED

    with channel(hub) as writer, hub.open_channel("streams", stream=stream) as reader:
        page = reader._parts.page
        for position in range(3):
            writer.send(b"\1" * SIZE)
            message = reader.next(LIMIT)
            stores.clear()
            message.release()
            value = position + 1
            assert [one[1:] for one in stores if one[0] is page] == [
                ("stream", P_DONE, value),
                (P_GPU_RELEASED, value),
                (P_RELEASED, value),
            ]


def test_a_lossy_release_enqueues_its_signal_then_marks_its_claim(hub, stores, stream):
    from cuda_ipc._ring_words import P_CLAIMS, P_DONE, P_RELEASED

    with channel(hub) as writer, hub.open_channel("streams", stream=stream, lossy=True) as reader:
        writer.send(b"\1" * SIZE)
        message = reader.next(LIMIT)
        stores.clear()
        message.release()
        assert [one[1:] for one in stores if one[0] is reader._parts.page] == [
            ("stream", P_DONE, 1),
            (P_CLAIMS, -1),
            (P_RELEASED, 1),
        ]


def test_a_writer_loads_released_before_gpu_released(hub):
    from cuda_ipc._ring_words import P_GPU_RELEASED, P_RELEASED

    with channel(hub) as writer, hub.open_channel("streams"):
        seat = writer._ring._seats[0]
        longs, loads = seat.page.longs, []

        class Recorder:
            def __getitem__(self, index):
                loads.append(index)
                return longs[index]

        seat.page.longs = Recorder()
        assert writer.readers == 1
        seat.page.longs = longs
    words = [index for index in loads if index in (P_RELEASED, P_GPU_RELEASED)]
    assert words == [P_RELEASED, P_GPU_RELEASED]


def test_a_commit_enqueues_that_it_is_ready_before_readers_see_the_message(hub, stores, stream):
    from cuda_ipc._ring_words import HEADERS, PUBLISHED

    with channel(hub) as writer, hub.open_channel("streams"):
        with writer.loan(LIMIT, stream=stream) as slot:
            stores.clear()
            slot.commit()
        control = writer._parts.control
        assert [one[1:] for one in stores if one[0] is control] == [
            ("stream", writer._ring.ready_line, 1),
            (HEADERS, 1),
            (PUBLISHED, 1),
        ]


def test_the_asyncio_forms_take_streams_and_other_tasks_run_meanwhile(hub, gate, new_stream, own):
    producing, consuming = new_stream(), new_stream()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        reader = await hub.open_channel_async("streams", stream=consuming)
        plain = await hub.open_channel_async("streams")
        slot = await writer.loan_async(LIMIT, stream=producing)
        producing.wait(gate)
        fill(slot, producing, 7)
        slot.commit()
        message = await reader.next_async(LIMIT)
        assert not message.ready, "its stream waits in its stead"
        take(message, consuming, own)
        message.release()
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="stream of the writer"):
            await plain.next_async(0.01)
        waiting = asyncio.ensure_future(plain.next_async(LIMIT))
        ticked = loop.create_future()
        loop.call_later(0.01, ticked.set_result, None)
        await ticked
        assert not waiting.done()
        gate.open()
        until("the writer's stream is done", producing.is_idle)
        with await waiting as message:
            assert message.array.tobytes() == b"\7" * SIZE
        until("the reader's stream is done", consuming.is_idle)
        assert own.content() == b"\7" * SIZE
        reader.close(LIMIT)
        plain.close(LIMIT)

    with channel(hub) as writer, gate:
        asyncio.run(scenario())


def test_send_async_and_loan_async_wait_for_a_stream_as_the_plain_forms_do(hub, gate, stream):
    async def scenario() -> None:
        reader = hub.open_channel("streams")
        stream.wait(gate)
        assert await writer.send_async(b"\1" * SIZE, stream=stream) == 0
        assert reader.try_next() is None, "the message is ready after the stream's work"
        with pytest.raises(cuda_ipc.CudaIpcTimeout):
            await writer.loan_async(0.01)
        waiting = asyncio.ensure_future(reader.next_async(LIMIT))
        await asyncio.sleep(0)
        gate.open()
        until("the stream is done", stream.is_idle)
        (await waiting).release(stream=stream)
        (await writer.loan_async(LIMIT)).close()
        reader.close(LIMIT)

    with channel(hub, slots=1) as writer, gate:
        asyncio.run(scenario())


def test_a_close_takes_a_limit_and_the_channel_stays_open_until_the_stream_is_done(
    hub, gate, stream
):
    with channel(hub, slots=4) as writer, hub.open_channel("streams", stream=stream) as reader:
        writer.send(b"\1" * SIZE)
        message = reader.next(LIMIT)
        stream.wait(gate)
        message.release()
        with writer.loan(LIMIT, stream=stream) as slot:
            slot.commit()
        for one in (reader, writer):
            for close in (one.close, getattr(one, "end", one.close)):
                with pytest.raises(
                    cuda_ipc.CudaIpcTimeout, match=r'close channel "streams" within'
                ):
                    close(0.01)
            assert not one.closed
            with pytest.raises(TypeError, match="timeout"):
                one.close("1")
        # Both can still be used.
        writer.send(b"\3" * SIZE)
        assert reader.next(LIMIT).sequence == 1
        gate.open()
        writer.close(LIMIT)
        assert reader.next(LIMIT).array.tobytes() == b"\3" * SIZE
        assert reader.next(LIMIT) is None
        reader.close(LIMIT)
        assert reader.closed and writer.closed


def test_without_a_stream_commit_release_and_close_wait_for_the_work_of_the_context(
    hub, gate, stream, own
):
    with channel(hub) as writer, hub.open_channel("streams") as reader:

        def waits(action) -> None:
            """The stream's work ends late, and the action does not end before."""
            from gpu_streams import Gate

            with Gate() as late:
                opens = threading.Timer(0.05, late.open)
                stream.wait(late)
                opens.start()
                action()
                assert stream.is_idle()
                opens.join()
            late.close()

        slot = writer.loan(LIMIT)
        waits(slot.commit)
        waits(reader.next(LIMIT).release)
        waits(reader.close)


@pytest.mark.parametrize("waits_for", ["a message", "a release"])
def test_a_close_waits_for_each_stream_that_uses_a_channel_in_host_memory(
    hub, gate, new_stream, waits_for
):
    producing, consuming = new_stream(), new_stream()
    with hub.create_channel("streams", "uint8", 1) as writer, gate:
        reader = hub.open_channel("streams", stream=consuming)
        if waits_for == "a message":
            producing.wait(gate)
            writer.send(b"x", stream=producing)
            assert not reader.next(LIMIT).ready
        else:
            writer.send(b"x")
            message = reader.next(LIMIT)
            consuming.wait(gate)
            message.release()
        with pytest.raises(cuda_ipc.CudaIpcTimeout):
            reader.close(0.01)
        gate.open()
        until("the writer's stream is done", producing.is_idle)
        reader.close(LIMIT)


def test_a_close_waits_for_the_context_of_a_stream_that_filled_nothing(hub, gate, new_stream):
    """It waits for a reader's stream. A stream of another context sends the message."""
    from cuda_ipc._cuda_streams import Stream

    consuming = new_stream()
    with channel(hub, slots=1) as writer, hub.open_channel("streams") as reader, gate:
        writer.send(b"\1" * SIZE)
        consuming.wait(gate)
        reader.next(LIMIT).release(stream=consuming)
        assert writer.try_loan() is None
        streams = writer._use_streams()
        other = Stream(77, 3, None)
        streams._pages[0].wait = lambda *_: None
        assert streams.order(other)
        assert 77 in streams.contexts
        streams._waiting.clear()


def test_a_signal_ends_a_close_that_waits_for_a_stream(hub, gate, stream):
    with channel(hub) as writer, gate:
        with writer.loan(LIMIT, stream=stream) as slot:
            stream.wait(gate)
            slot.commit()
        before = threading.active_count()
        interrupted(writer.close, lambda: threading.active_count() > before + 1)
        assert not writer.closed
        gate.open()
        writer.close(LIMIT)


@pytest.fixture
def opened_later(gate):
    """Opens the gate once a condition holds, and sees to it that the stream goes on."""
    threads = []

    def later(what, condition, stream) -> None:
        def run() -> None:
            until(what, condition)
            gate.open()
            until("the stream is done", stream.is_idle)

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield later
    for thread in threads:
        thread.join(LIMIT)


def test_a_writer_waits_for_a_slot_that_a_lossy_reader_s_stream_holds(
    hub, gate, stream, opened_later
):
    with (
        channel(hub, slots=1) as writer,
        hub.open_channel("streams", stream=stream, lossy=True) as reader,
        gate,
    ):
        writer.send(b"\1" * SIZE)
        message = reader.next(LIMIT)
        stream.wait(gate)
        message.release()
        assert writer.try_loan() is None
        opened_later("the writer waits", lambda: writer._is_awaited, stream)
        writer.loan(LIMIT).close()


def test_a_reader_waits_until_its_stream_gives_a_claim_back(hub, gate, stream, opened_later):
    with (
        channel(hub, slots=16) as writer,
        hub.open_channel("streams", stream=stream, lossy=True) as reader,
        gate,
    ):
        stream.wait(gate)
        for _ in range(9):
            writer.send(b"\1" * SIZE)
        for _ in range(8):
            reader.next(LIMIT).release()
        opened_later("the reader waits", lambda: reader._is_awaited, stream)
        assert reader.next(LIMIT).sequence == 8


def test_what_streams_use_of_a_channel_is_unregistered_when_it_closes(hub, stream, monkeypatch):
    from cuda_ipc import _cuda_streams

    driver, registered = _cuda_streams._driver(), []

    class Recorder:
        def __getattr__(self, name):
            return getattr(driver, name)

        def cuMemHostRegister_v2(self, address, *rest):
            registered.append(address)
            return driver.cuMemHostRegister_v2(address, *rest)

        def cuMemHostUnregister(self, address):
            registered.remove(address)
            return driver.cuMemHostUnregister(address)

    monkeypatch.setattr(_cuda_streams, "_driver", Recorder)
    writer, reader = channel(hub, slots=1), hub.open_channel("streams", stream=stream)
    for _ in range(2):
        with writer.loan(LIMIT, stream=stream) as slot:
            slot.commit()
        reader.next(LIMIT).release()
    assert len(registered) >= 2
    reader.close(LIMIT)
    writer.close(LIMIT)
    assert registered == []


def test_a_stream_of_a_device_that_this_process_does_not_see_is_refused(hub, stream):
    elsewhere = Named(cuda_stream=0, device=Named(index=999))
    with channel(hub) as writer, hub.open_channel("streams") as reader:
        assert code(lambda: writer.try_loan(stream=elsewhere)) == "DEVICE_NOT_FOUND"
        assert code(lambda: writer.loan(stream=elsewhere)) == "DEVICE_NOT_FOUND"
        assert code(lambda: hub.open_channel("streams", stream=elsewhere)) == "DEVICE_NOT_FOUND"
        assert writer.readers == 1, "its seat is free again"
        with writer.loan(LIMIT) as slot:
            assert code(lambda: slot.commit(stream=elsewhere)) == "DEVICE_NOT_FOUND"
            slot.commit(stream=stream)
        with reader.next(LIMIT) as message:
            assert code(lambda: message.release(stream=elsewhere)) == "DEVICE_NOT_FOUND"
            assert not message.closed


FAILING = f"""
import os, tempfile
mark = os.path.join(tempfile.mkdtemp(), "lost")
os.environ["LIBCUDA_IN_C_LOST"] = mark
sys.path.insert(0, {str(HERE)!r})
from gpu_streams import Gate, GpuStream
gate, stream = Gate(), GpuStream()

def code(action):
    try:
        action()
    except cuda_ipc.CudaIpcError as error:
        return error.code

def fail_device():
    with open(mark, "w"):
        pass
    stream.wait(gate)
    assert code(stream.is_idle) == "DEVICE_LOST"
    os.remove(mark)
    os.rmdir(os.path.dirname(mark))
"""

in_c = pytest.mark.skipif(
    "LIBCUDA_IN_C" not in os.environ, reason="needs a device that fails: the libcuda in C"
)


@in_c
def test_a_message_that_waits_for_a_device_that_fails_is_missed_and_the_close_ends(hub, python):
    peer = python(
        FAILING
        + f"""
writer = hub.create_channel("streams", "uint8", {SIZE}, slots=4, device="cuda:0")
say("open")
sys.stdin.readline()
writer.send(bytes({SIZE}))
slot = writer.loan(60, stream=stream)
stream.wait(gate)
slot.commit()
held = writer.loan(60, stream=stream)
say("committed")
sys.stdin.readline()
fail_device()
say([code(held.commit), code(lambda: writer.close(60)), writer.closed])
hub.close()
"""
    )
    assert peer.said() == "open"
    with hub.open_channel("streams") as reader:
        peer.tell()
        assert peer.said() == "committed"
        with reader.next(LIMIT) as message:
            assert message.sequence == 0
        with pytest.raises(cuda_ipc.CudaIpcTimeout, match="stream of the writer"):
            reader.next(0.01)
        peer.tell()
        assert peer.said() == ["DEVICE_LOST", "DEVICE_LOST", True]
        assert reader.next(LIMIT) is None
        assert (reader.received, reader.missed) == (1, 1)
        peer.finish()


@in_c
def test_a_reader_whose_device_fails_says_so_and_its_close_gives_the_slots_back(hub, python):
    with channel(hub, slots=2) as writer:
        peer = python(
            FAILING
            + """
reader = hub.open_channel("streams", stream=stream)
say("open")
message, other = reader.next(60), reader.next(60)
fail_device()
said = [code(message.release), code(reader.try_next), code(lambda: reader.next(60))]
say([*said, message.closed])
sys.stdin.readline()
reader.close(60)
say(reader.closed)
hub.close()
"""
        )
        assert peer.said() == "open"
        for value in (1, 2):
            writer.send(bytes([value]) * SIZE)
        assert peer.said() == ["DEVICE_LOST"] * 3 + [True]
        assert writer.try_loan() is None, "its stream has not given them back"
        peer.tell()
        assert peer.said() is True
        writer.send(b"\3" * SIZE, timeout=LIMIT)
        peer.finish()


@in_c
def test_a_message_stays_if_the_reader_s_stream_cannot_wait_for_it(hub, python, gate, stream):
    with channel(hub, slots=2) as writer, gate:
        peer = python(
            FAILING
            + """
reader = hub.open_channel("streams", stream=stream)
say("open")
sys.stdin.readline()
fail_device()
say([code(reader.try_next), code(reader.try_next), reader.received])
reader.close(60)
say("closed")
hub.close()
"""
        )
        assert peer.said() == "open"
        with writer.loan(LIMIT, stream=stream) as slot:
            stream.wait(gate)
            slot.commit()
        peer.tell()
        assert peer.said() == ["DEVICE_LOST", "DEVICE_LOST", 1]
        assert peer.said() == "closed"
        gate.open()
        until("the writer's stream is done", stream.is_idle)
        for _ in range(3):
            writer.send(b"\3" * SIZE, timeout=LIMIT)
        peer.finish()
