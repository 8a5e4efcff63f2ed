"""Closing what another thread or another task waits with: the wait ends, and nothing stays open."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from conftest import LIMIT, code, until

import cuda_ipc

# ---------------------------------------------------------------- channels


def code_in_thread(wait, is_waiting, close) -> str:
    """The code of the error that ends the wait of another thread."""
    codes = []

    def run() -> None:
        try:
            wait()
        except cuda_ipc.CudaIpcError as ended:
            codes.append(ended.code)

    thread = threading.Thread(target=run)
    thread.start()
    until("it waits", is_waiting)
    close()
    thread.join(LIMIT)
    assert not thread.is_alive(), "its wait goes on"
    return codes[0] if codes else "no error of this package"


async def code_in_task(wait, is_waiting, close) -> str:
    task = asyncio.ensure_future(wait)
    while not is_waiting():
        await asyncio.sleep(0.001)
    close()
    try:
        await asyncio.wait_for(task, LIMIT)
    except cuda_ipc.CudaIpcError as ended:
        return ended.code
    return "no error of this package"


@contextlib.contextmanager
def full(hub):
    """A writer without room, and its reader, which has read everything."""
    with hub.create_channel("closing", "uint8", 1, slots=1) as writer:
        with hub.open_channel("closing") as reader:
            writer.send(b"1")
            yield writer, reader


def test_next_ends_with_closed_when_another_thread_closes_the_reader(hub):
    with full(hub) as (writer, reader):
        reader.next(LIMIT).release()
        assert code_in_thread(reader.next, lambda: reader._is_awaited, reader.close) == "CLOSED"
        assert reader.closed
        until("its seat is free", lambda: writer.readers == 0)


def test_loan_ends_with_closed_when_another_thread_closes_the_writer(hub):
    with full(hub) as (writer, reader):
        assert code_in_thread(writer.loan, lambda: writer._is_awaited, writer.close) == "CLOSED"
        assert writer.closed and writer.committed == 1 and writer.dropped == 0
        with reader.next(LIMIT) as message:
            assert message.data == b"1"
        assert reader.next(LIMIT) is None


def test_next_async_ends_with_closed_when_another_task_closes_the_reader(hub):
    with full(hub) as (writer, reader):
        reader.next(LIMIT).release()
        wait = code_in_task(reader.next_async(), lambda: reader._is_awaited, reader.close)
        assert asyncio.run(wait) == "CLOSED"
        until("its seat is free", lambda: writer.readers == 0)


def test_loan_async_ends_with_closed_when_another_task_closes_the_writer(hub):
    with full(hub) as (writer, reader):
        wait = code_in_task(writer.loan_async(), lambda: writer._is_awaited, writer.close)
        assert asyncio.run(wait) == "CLOSED"
        reader.next(LIMIT).release()
        assert reader.next(LIMIT) is None


def test_a_hub_that_another_thread_closes_ends_a_wait_with_closed(hub, socket):
    with hub.create_channel("closing:hub", "uint8", 1):
        for _ in range(5):
            other = cuda_ipc.connect(socket)
            reader = other.open_channel("closing:hub")
            assert code_in_thread(reader.next, lambda: reader._is_awaited, other.close) == "CLOSED"


# ---------------------------------------------------------------- services


def test_leaving_a_hub_lets_a_coroutine_that_handles_a_request_finish(socket):
    async def main() -> int:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request, reply):
            begun.set()
            await go_on.wait()
            return {"meta": request.json + 1}

        async with await cuda_ipc.connect_async(socket) as other:
            client = other.connect_service("closing:service")
            async with await cuda_ipc.connect_async(socket) as hub:
                service = await hub.serve_async("closing:service", handler, request=("uint8", 1))
                asked = asyncio.ensure_future(client.request_async(meta=1, timeout=LIMIT))
                await begun.wait()

                async def finish() -> None:
                    while not service.closed:
                        await asyncio.sleep(0.001)
                    go_on.set()

                finishing = asyncio.ensure_future(finish())
            assert go_on.is_set(), "the event loop stood still while the hub was left"
            await finishing
            with await asked as answer:
                return int(answer.json)

    assert asyncio.run(main()) == 2


def test_a_wait_does_not_begin_once_another_thread_has_closed_the_channel(hub, monkeypatch):
    """The close comes after the first look, and before the wait."""
    with full(hub) as (writer, reader):
        reader.next(LIMIT).release()
        writer.send(b"2")
        with reader.next(LIMIT):
            for one, wait, look in (
                (writer, writer.loan, "_reserve"),
                (reader, reader.next, "_try_next"),
            ):
                found = getattr(one, look)

                def then_close(*given, one=one, found=found):
                    result = found(*given)
                    one.close()
                    return result

                with monkeypatch.context() as patched:
                    patched.setattr(one, look, then_close)
                    assert code(wait) == "CLOSED"
