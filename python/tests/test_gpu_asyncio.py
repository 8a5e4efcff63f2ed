"""Calls for asyncio that wait for a GPU, because no stream was given: the event loop continues.

On a GPU, or on the libcuda of the tests that is written in C.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from conftest import LIMIT, calls_under_way, code, under_way, until
from test_cuda import why_not
from test_streams import SIZE, channel, gate, new_stream, stream

import cuda_ipc

__all__ = ["gate", "new_stream", "stream"]  # fixtures

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
                monkeypatch.undo()

    asyncio.run(main())
