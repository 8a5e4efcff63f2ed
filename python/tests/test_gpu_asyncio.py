"""Calls for asyncio that wait for a GPU, because no stream was given: the event loop continues.

On a GPU, or on the libcuda of the tests that is written in C.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from a_gpu import a_tensor, why_not
from conftest import LIMIT, calls_under_way, code, under_way, until
from test_legacy import malloc
from test_streams import SIZE, channel, gate, new_stream, stream

import cuda_ipc

__all__ = ["gate", "malloc", "new_stream", "stream"]  # fixtures

pytestmark = [
    pytest.mark.skipif(why_not() != "", reason=why_not()),
    pytest.mark.usefixtures("ends_in_time"),
]

TURNS = 100
DATA = bytes(range(256)) * (SIZE // 256)


@contextlib.asynccontextmanager
async def pair(hub, **options):
    """A writer and a reader in GPU memory."""
    with channel(hub, **options) as writer, hub.open_channel("streams") as reader:
        yield writer, reader
        # What was dropped is given back.
        until("no call is under way", lambda: not calls_under_way())


async def after_the_gate(gate, call: Any) -> Any:
    """What a call returns that waits until the gate is open."""
    task = asyncio.ensure_future(call)
    await under_way(task, TURNS)
    gate.open()
    return await task


async def cancelled(call: Any) -> None:
    task = asyncio.ensure_future(call)
    await under_way(task, TURNS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_commit_async_waits_for_the_gpu_and_a_cancelled_one_leaves_the_slot(hub, gate, stream):
    async def main():
        async with pair(hub) as (writer, reader):
            slot = await writer.loan_async(LIMIT)
            stream.wait(gate)
            stream.fill(slot.array.__cuda_array_interface__["data"][0], 7, SIZE)
            await cancelled(slot.commit_async(meta=1))
            assert reader.try_next() is None and not slot.closed
            assert await after_the_gate(gate, slot.commit_async(meta=2)) == 0
            with pytest.raises(cuda_ipc.CudaIpcError, match="was committed"):
                await slot.commit_async()
            async with await reader.next_async(LIMIT) as message:
                assert message.json == 2 and message.array.tobytes() == b"\7" * SIZE
            assert message.closed

    with gate:
        asyncio.run(main())


def test_release_async_waits_for_the_gpu_and_a_cancelled_one_is_made_up_for(hub, gate, stream):
    async def main():
        async with pair(hub) as (writer, reader):
            for meta in range(2):
                await writer.send_async(DATA, meta=meta)
            first, second = await reader.next_async(LIMIT), await reader.next_async(LIMIT)
            stream.wait(gate)
            await cancelled(first.release_async())
            assert writer.try_loan() is None
            await after_the_gate(gate, second.release_async())
            assert second.closed
            assert reader.try_next() is None and first.closed
            for meta in range(2, 4):
                assert await writer.send_async(DATA, meta=meta, timeout=LIMIT) == meta

    with gate:
        asyncio.run(main())


def test_async_with_and_async_for_release_off_the_loop(hub, gate, new_stream):
    stream = new_stream()

    async def main():
        async with pair(hub) as (writer, reader):
            await writer.send_async(DATA, meta=0)
            await writer.send_async(DATA, meta=1)

            async def take():
                async with await reader.next_async(LIMIT) as message:
                    stream.wait(gate)
                assert message.closed
                seen = []
                async for message in reader:
                    seen.append(message.json)
                return seen

            task = asyncio.ensure_future(take())
            await under_way(task, TURNS)
            gate.open()
            assert await writer.send_async(DATA, meta=2, timeout=LIMIT) == 2
            await writer.close_async(LIMIT)
            assert await task == [1, 2]

    with gate:
        asyncio.run(main())


@pytest.mark.parametrize("lossy", [False, True])
def test_dropped_messages_do_not_stop_the_loop_and_are_given_back_later(hub, gate, stream, lossy):
    held = 8 if lossy else 2

    async def main():
        with channel(hub, slots=12 if lossy else 2) as writer:
            reader = hub.open_channel("streams", lossy=lossy)
            messages = []
            for meta in range(held):
                await writer.send_async(DATA, meta=meta, timeout=LIMIT)
                messages.append(await reader.next_async(LIMIT))
            if lossy:
                await writer.send_async(DATA, meta="next")
            stream.wait(gate)
            messages.clear()
            with pytest.raises(TimeoutError, match="a GPU is still at work on messages that"):
                await asyncio.wait_for(reader.next_async(0.01), LIMIT)
            next_one = asyncio.ensure_future(reader.next_async(LIMIT))
            await under_way(next_one, TURNS)
            gate.open()
            if not lossy:
                await writer.send_async(DATA, meta="next", timeout=LIMIT)
            async with await next_one as message:
                assert message.json == "next"
            until("no call is under way", lambda: not calls_under_way())
            reader.close(LIMIT)

    with gate:
        asyncio.run(main())


def test_send_async_copies_off_the_loop_and_a_cancelled_copy_keeps_its_slot(hub, gate, monkeypatch):
    copies, may_copy = threading.Semaphore(0), threading.Event()

    async def main():
        async with pair(hub) as (writer, reader):
            memory = writer._parts.memory
            write = memory.write

            def late(start: int, data: memoryview) -> None:
                copies.release()
                assert may_copy.wait(LIMIT)
                write(start, data)

            monkeypatch.setattr(memory, "write", late)
            task = asyncio.ensure_future(writer.send_async(DATA, meta=1))
            await under_way(task, TURNS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert copies.acquire(timeout=LIMIT)
            # The copy still writes to the slot.
            assert writer.try_loan() is None
            with pytest.raises(TimeoutError, match="streams that use the next slot"):
                await writer.loan_async(0.01)
            next_one = asyncio.ensure_future(writer.send_async(DATA, meta=2, timeout=LIMIT))
            await under_way(next_one, TURNS)
            may_copy.set()
            assert await next_one == 0
            async with await reader.next_async(LIMIT) as message:
                assert message.json == 2 and message.array.tobytes() == DATA
            # One that fails holds nothing.
            with pytest.raises(cuda_ipc.CudaIpcError) as refused:
                await writer.send_async(DATA + b"1")
            assert refused.value.code == "MESSAGE_TOO_LARGE"
            writer.loan(LIMIT).close()

    asyncio.run(main())


def test_a_copy_whose_thread_cannot_be_started_keeps_no_slot(hub, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    async def main():
        async with pair(hub) as (writer, _):
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", refuse)
                with pytest.raises(RuntimeError):
                    await writer.send_async(DATA)
            writer.loan(LIMIT).close()

    asyncio.run(main())


def test_requests_and_replies_wait_for_the_gpu_off_the_loop(hub, gate, stream):
    begun = []

    async def handler(request, reply):
        begun.append(request.json)
        with contextlib.suppress(asyncio.CancelledError):
            if request.json == "waits":
                stream.wait(gate)
            if request.json == "cancelled":
                stream.wait(gate)
                await asyncio.sleep(LIMIT)
        slot = await reply.loan_async()
        slot.write(request.array.tobytes()) if request.json == "copies" else None
        return {"meta": request.json}

    sizes = {"request": ("uint8", SIZE), "reply": ("uint8", SIZE), "device": "cuda:0"}

    async def main():
        async with await hub.serve_async("gpu", handler, **sizes):
            async with hub.connect_service("gpu") as client:
                reply = await client.request_async(DATA, meta="copies", timeout=LIMIT)
                assert reply.array.tobytes() == DATA
                await reply.release_async()
                assert reply.closed
                # Its end waits for the GPU, and so do a request and a release beside it.
                waits = asyncio.ensure_future(client.request_async(meta="waits", timeout=LIMIT))
                while "waits" not in begun:
                    await asyncio.sleep(0)
                await under_way(waits, TURNS)
                beside = asyncio.ensure_future(client.request_async(DATA, timeout=LIMIT))
                await under_way(beside, TURNS)
                await cancelled(client.request_async(DATA, meta="late", timeout=LIMIT))
                gate.open()
                async with await waits as reply:
                    assert reply.json == "waits"
                (await beside).release()

    with gate:
        asyncio.run(main())


def test_a_reply_is_released_off_the_loop_and_a_cancelled_release_continues(hub, gate, stream):
    sizes = {"request": ("uint8", SIZE), "reply": ("uint8", SIZE), "device": "cuda:0"}

    def handler(request, reply):
        reply.loan()

    async def main():
        async with hub.connect_service("gpu") as client:
            replies = [await client.request_async(DATA, timeout=LIMIT) for _ in range(2)]
            stream.wait(gate)
            await cancelled(replies[0].release_async())
            await after_the_gate(gate, replies[1].release_async())
            until("both are given back", lambda: all(reply.closed for reply in replies))

    with gate, hub.serve("gpu", handler, **sizes):
        asyncio.run(main())


def test_a_handler_that_is_cancelled_ends_off_the_loop(hub, gate, stream):
    begun = asyncio.Event()

    async def handler(request, reply):
        stream.wait(gate)
        begun.set()
        await asyncio.sleep(LIMIT)

    sizes = {"request": ("uint8", SIZE), "reply": ("uint8", SIZE), "device": "cuda:0"}

    async def main():
        async with await hub.serve_async("gpu", handler, **sizes) as service:
            async with hub.connect_service("gpu") as client:
                task = asyncio.ensure_future(client.request_async(meta=1, timeout=LIMIT))
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                # Its request is being released.
                while not calls_under_way():
                    await asyncio.sleep(0)
                for _ in range(TURNS):
                    await asyncio.sleep(0)
                gate.open()
                while service._running:
                    await asyncio.sleep(0)

    with gate:
        asyncio.run(main())


def test_on_the_host_the_forms_need_no_thread(hub, monkeypatch):
    async def main():
        with hub.create_channel("host", "uint8", 4, slots=2) as writer:
            with hub.open_channel("host") as reader:
                monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread"))
                with await writer.loan_async() as slot:
                    await slot.commit_async(meta=1)
                await writer.send_async(b"1234")
                message = await reader.next_async(LIMIT)
                await message.release_async()
                await message.release_async()
                async with await reader.next_async(LIMIT) as message:
                    assert bytes(message.data) == b"1234"
                assert code(lambda: message.array) == "CLOSED"
        async with hub.create("array", "uint8", 4) as array:
            await array.write_async(b"1234")
            assert await array.tobytes_async() == b"1234"
            assert await array.tolist_async() == [49, 50, 51, 52]
        assert array.closed
        monkeypatch.undo()

    asyncio.run(main())


# ---------------------------------------------------------------- copies, closes and handles


def close_of_a_bundle(hub, memory):
    bundle = hub.create_bundle("bundle", {"w": ("uint8", SIZE)}, device="cuda:0")
    return bundle.close_async


CALLS_OF_THE_GPU = {
    "tobytes": lambda hub, memory: hub.create("a", "uint8", SIZE, device="cuda:0").tobytes_async,
    "tolist": lambda hub, memory: hub.create("a", "uint8", SIZE, device="cuda:0").tolist_async,
    "close": lambda hub, memory: hub.create("a", "uint8", SIZE, device="cuda:0").close_async,
    "close of a bundle": close_of_a_bundle,
    "handle_of": lambda hub, memory: (
        lambda: cuda_ipc.interop.handle_of_async(a_tensor(memory, "uint8", (8,), 256))
    ),
}


@pytest.mark.parametrize("name", CALLS_OF_THE_GPU)
def test_a_call_that_waits_for_all_work_of_the_gpu_lets_the_loop_continue(
    hub, gate, stream, malloc, name
):
    async def main():
        call = CALLS_OF_THE_GPU[name](hub, malloc)
        stream.wait(gate)
        await after_the_gate(gate, call())

    with gate:
        asyncio.run(main())


def test_async_with_an_array_closes_it_off_the_loop(hub, gate, stream):
    async def main():
        async def use():
            async with await hub.create_async("a", "uint8", SIZE, device="cuda:0") as array:
                stream.wait(gate)
                begun.set()
            assert array.closed

        begun = asyncio.Event()
        task = asyncio.ensure_future(use())
        await begun.wait()
        await under_way(task, TURNS)
        gate.open()
        await task

    with gate:
        asyncio.run(main())


class LateCopy:
    """Copies into a memory wait until the test lets them go."""

    def __init__(self, monkeypatch, memory) -> None:
        self._began, self._may = threading.Semaphore(0), threading.Event()
        self._write = memory.write
        monkeypatch.setattr(memory, "write", self._late)

    def _late(self, start: int, data: memoryview) -> None:
        self._began.release()
        assert self._may.wait(LIMIT)
        self._write(start, data)

    def until_it_begins(self) -> None:
        assert self._began.acquire(timeout=LIMIT)

    def go(self) -> None:
        self._may.set()


def test_write_async_copies_off_the_loop_and_a_cancelled_one_continues(hub, monkeypatch):
    async def main():
        with hub.create("a", "uint8", SIZE, device="cuda:0") as array:
            late = LateCopy(monkeypatch, array._memory)
            await cancelled(array.write_async(bytes(SIZE)))
            writes = asyncio.ensure_future(array.write_async(DATA))
            await under_way(writes, TURNS)
            late.go()
            await writes
            until("no call is under way", lambda: not calls_under_way())
            assert set(await array.tobytes_async()) <= {0, *DATA}
            await array.write_async(DATA)
            assert await array.tobytes_async() == DATA
            assert await array.tolist_async() == list(DATA)
            with pytest.raises(ValueError, match="1 bytes for an array"):
                await array.write_async(b"1")
        with pytest.raises(cuda_ipc.CudaIpcError, match="was closed"):
            await array.write_async(DATA)

    asyncio.run(main())


def test_a_slot_is_not_loaned_while_cancelled_copies_still_write_to_it(hub, monkeypatch):
    async def main():
        async with pair(hub) as (writer, reader):
            memory = writer._parts.memory
            slot = writer.loan(LIMIT)
            first = LateCopy(monkeypatch, memory)
            await cancelled(slot.array.write_async(DATA))
            first.until_it_begins()
            monkeypatch.undo()
            second = LateCopy(monkeypatch, memory)
            await cancelled(slot.array.write_async(DATA))
            second.until_it_begins()
            slot.close()
            assert writer.try_loan() is None
            second.go()
            until("the first one is under way alone", lambda: len(calls_under_way()) == 1)
            assert writer.try_loan() is None
            first.go()
            assert await writer.send_async(DATA, meta="next", timeout=LIMIT) == 0
            async with await reader.next_async(LIMIT) as message:
                assert message.json == "next"

    asyncio.run(main())


def test_write_async_of_a_reply_waits_for_the_client_s_stream_and_copies_off_the_loop(
    hub, gate, new_stream, monkeypatch
):
    working, reading = new_stream(), new_stream()
    late, began = [], asyncio.Event()

    async def handler(request, reply):
        slot = await reply.loan_async()
        if request.json == "waits":
            writes = asyncio.ensure_future(slot.write_async(DATA))
            await under_way(writes, TURNS)
            late.append(LateCopy(monkeypatch, slot._slot._writer._parts.memory))
            gate.open()
            # The libcuda in C does the work of a stream when it is asked about that one.
            while not all([working.is_idle(), reading.is_idle()]):
                await asyncio.sleep(0)
            await under_way(writes, TURNS)
            late[0].go()
            await writes
        elif request.json == "cancelled":
            late.append(LateCopy(monkeypatch, slot._slot._writer._parts.memory))
            began.set()
            await slot.write_async(bytes(SIZE))
        else:
            await slot.write_async(DATA)
        return {"meta": request.json}

    sizes = {"request": ("uint8", 1), "reply": ("uint8", SIZE), "device": "cuda:0"}
    options = {**sizes, "stream": working, "depth": 1, "concurrency": 2}

    async def main():
        async with await hub.serve_async("gpu", handler, **options):
            async with hub.connect_service("gpu", stream=reading) as client:
                (await client.request_async(meta="first")).release()
                with await client.request_async(meta="second"):
                    reading.wait(gate)
                (await client.request_async(meta="third")).release()
                reply = await client.request_async(meta="waits", timeout=LIMIT)
                assert reply.array.tobytes() == DATA
                reply.release()
                # The next reply does not get the slot before the end of the cancelled copy.
                monkeypatch.undo()
                task = asyncio.ensure_future(client.request_async(meta="cancelled"))
                await began.wait()
                late[1].until_it_begins()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                monkeypatch.undo()
                task = asyncio.ensure_future(client.request_async(meta="last", timeout=LIMIT))
                await under_way(task, TURNS)
                late[1].go()
                with await task as reply:
                    assert reply.array.tobytes() == DATA

    with gate:
        asyncio.run(main())


def test_prepare_async_registers_off_the_loop(hub, stream, monkeypatch):
    may_end = threading.Event()

    async def main():
        with hub.create_timeline("t") as timeline:
            words = timeline._use_streams()._words
            monkeypatch.setattr(words, "prepare", lambda _: may_end.wait(LIMIT))
            task = asyncio.ensure_future(timeline.prepare_async(stream))
            await under_way(task, TURNS)
            may_end.set()
            await task
            monkeypatch.undo()
            await timeline.prepare_async(stream)
            with pytest.raises(TypeError):
                await timeline.prepare_async("stream")

    asyncio.run(main())
