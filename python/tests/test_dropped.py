"""Messages and replies that the program drops without `release()` give their slots back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading

import pytest
from conftest import LIMIT, code, until

import cuda_ipc

pytestmark = pytest.mark.usefixtures("ends_in_time")

DATA = b"1234"


@contextlib.contextmanager
def channel(hub):
    """A writer with two slots, and its reader."""
    with hub.create_channel("dropped", "uint8", 4, slots=2) as writer:
        with hub.open_channel("dropped") as reader:
            yield writer, reader


def passed_on(writer, reader):
    """A message that is sent and read."""
    writer.send(DATA, timeout=LIMIT)
    return reader.next(LIMIT)


def is_full(writer) -> bool:
    slot = writer.try_loan()
    if slot is not None:
        slot.close()
    return slot is None


KINDS = {
    "array": (lambda hub: hub.put("dropped", DATA, dtype="uint8", shape=4), "open"),
    "bundle": (
        lambda hub: hub.create_bundle("dropped", {"w": ("uint8", 4)}).publish(),
        "open_bundle",
    ),
    "channel": (lambda hub: hub.create_channel("dropped", "uint8", 4), "open_channel"),
    "timeline": (lambda hub: hub.create_timeline("dropped"), "open_timeline"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_opened_is_given_back_when_it_is_dropped_and_a_creation_with_its_hub(
    hub, socket, kind
):
    create, open_name = KINDS[kind]

    def leases() -> int:
        gc.collect()
        return hub.inspect("dropped")[0].leases

    with cuda_ipc.connect(socket) as creator:
        create(creator)
        with cuda_ipc.connect(socket) as reader:
            opened = getattr(reader, open_name)("dropped", timeout=LIMIT)
            assert leases() == 2
            del opened
            until("the reader's lease ends", lambda: leases() == 1)
            creator.status()  # is answered after all that it has sent before
            assert leases() == 1
    until("it has ended", lambda: code(lambda: hub.inspect("dropped")) == "NOT_FOUND")


def test_a_message_that_is_dropped_gives_its_slot_back_at_once(hub):
    with channel(hub) as (writer, reader):
        for value in range(10):
            writer.send(DATA, meta=value, timeout=LIMIT)
            assert reader.next(LIMIT).json == value
            writer.send(DATA, meta=value, timeout=LIMIT)
            assert reader.try_next().array.tolist() == list(DATA)
        assert reader.received == 20


def test_a_message_stays_while_an_array_or_a_view_of_it_is_used(hub):
    with channel(hub) as (writer, reader):
        numpy = pytest.importorskip("numpy")
        for make in (
            lambda message: message.array,
            lambda message: message.numpy(),
            lambda message: message.numpy()[1:3],
            lambda message: numpy.asarray(message.array),
        ):
            for _ in range(2):
                writer.send(DATA, timeout=LIMIT)
            views = [make(reader.next(LIMIT)), make(reader.next(LIMIT))]
            gc.collect()
            assert is_full(writer)
            views.clear()
            gc.collect()
            assert not is_full(writer)


def test_bytes_of_a_message_that_was_dropped_stay_usable(hub):
    with channel(hub) as (writer, reader):
        writer.send(DATA)
        data = reader.next(LIMIT).data
        writer.send(b"5678")
        gc.collect()
        assert is_full(writer) and data == DATA


def test_a_message_of_which_another_library_has_a_view_is_not_given_back(hub):
    numpy = pytest.importorskip("numpy")
    makers = [lambda message: numpy.from_dlpack(message.array)]
    with contextlib.suppress(ImportError):
        import torch

        makers.append(lambda message: torch.from_dlpack(message.array))
    for make in makers:
        with channel(hub) as (writer, reader):
            for _ in range(2):
                writer.send(DATA, timeout=LIMIT)
            views = [make(reader.next(LIMIT)), make(reader.next(LIMIT))]
            gc.collect()
            assert is_full(writer)
            assert [view.tolist() for view in views] == [list(DATA)] * 2
            views.clear()
            gc.collect()
            assert is_full(writer)


def test_a_message_without_data_holds_nothing(hub):
    with channel(hub) as (writer, reader):
        held = []
        for value in range(5):
            with writer.loan(LIMIT) as slot:
                slot.commit(meta=value, byte_length=0)
            held.append(reader.next(LIMIT))
        assert [message.json for message in held] == list(range(5))
        assert [message.array.tolist() for message in held] == [[]] * 5
        assert bytes(held[0].data) == b""


def test_a_message_that_another_thread_drops_wakes_its_reader(hub):
    with channel(hub) as (writer, reader):
        for value in range(2):
            writer.send(DATA, meta=value)
        held = [reader.next(LIMIT), reader.next(LIMIT)]

        def drop():
            until("the reader waits", lambda: reader._is_awaited)
            held.clear()
            writer.send(DATA, meta=2, timeout=LIMIT)

        thread = threading.Thread(target=drop)
        thread.start()
        assert reader.next(LIMIT).json == 2
        thread.join(LIMIT)


def test_a_message_that_is_dropped_in_a_call_of_its_reader_is_given_back_by_the_next_one(
    hub, monkeypatch
):
    with channel(hub) as (writer, reader):
        writer.send(DATA)
        held = [reader.next(LIMIT)]
        take = reader._ring.try_take

        def dropping():
            held.clear()
            return take()

        with monkeypatch.context() as patched:
            patched.setattr(reader._ring, "try_take", dropping)
            assert reader.try_next() is None
        writer.send(DATA, meta=1)
        assert is_full(writer)
        assert reader.try_next().json == 1
        assert not is_full(writer)


def test_a_message_that_outlives_its_reader_is_dropped_in_peace(hub):
    with channel(hub) as (writer, reader):
        writer.send(DATA)
        message = reader.next(LIMIT)
        reader.close()
        assert message.closed
        del message
        gc.collect()


def test_a_writer_whose_time_is_up_is_told_that_this_process_holds_the_messages(
    hub, patient_explanations
):
    with channel(hub) as (writer, reader):
        held = [passed_on(writer, reader), passed_on(writer, reader)]
        told = "is 2 messages behind; this process itself has not released them \\["
        with pytest.raises(TimeoutError, match=told):
            writer.loan(0.01)
        assert len(held) == 2


def test_a_writer_whose_time_is_up_is_told_of_the_reader_that_keeps_it_waiting(
    hub, patient_explanations
):
    with hub.create_channel("late", "uint8", 4, slots=2) as writer:
        with hub.open_channel("late", lossy=True), hub.open_channel("late") as reader:
            writer.send(DATA)
            writer.send(DATA)
            reader.next(LIMIT).release()
            writer.send(DATA)
            with pytest.raises(TimeoutError, match=r": reader 1 \(.*\) is 2 messages behind"):
                writer.loan(0.01)
    with hub.create_channel("late", "uint8", 4, slots=2, when_full="drop-oldest") as writer:
        with hub.open_channel("late") as reader:
            held = [passed_on(writer, reader), passed_on(writer, reader)]
            with pytest.raises(TimeoutError, match=r"\) holds slots; this process itself"):
                writer.loan(0.01)
            assert len(held) == 2


def test_a_reader_whose_time_is_up_is_told_how_many_messages_this_process_holds(hub):
    own = rf": no slot is free: this process itself \(process {os.getpid()}\) holds "
    with channel(hub) as (writer, reader):
        held = [passed_on(writer, reader), passed_on(writer, reader)]
        with pytest.raises(TimeoutError, match=own + "2 messages that are not released \\["):
            reader.next(0.01)
        with pytest.raises(TimeoutError, match=own + "2 messages that are not released \\["):
            asyncio.run(reader.next_async(0.01))
        # The first one holds up the second, which was released.
        held.pop().release()
        with pytest.raises(TimeoutError, match=own + "1 message that is not released \\["):
            reader.next(0.01)
        held.pop().release()
        with pytest.raises(TimeoutError, match="its writer has committed nothing more"):
            reader.next(0.01)


def test_a_lossy_reader_is_told_how_many_messages_this_process_holds(hub):
    own = rf"this process itself \(process {os.getpid()}\) holds "
    with hub.create_channel("lossy", "uint8", 4, slots=2) as writer:
        with hub.open_channel("lossy", lossy=True) as reader:
            held = [passed_on(writer, reader) for _ in range(2)]
            with pytest.raises(TimeoutError, match=own + "2 messages that are not released \\["):
                reader.next(0.01)
            held.pop(0).release()
            with pytest.raises(TimeoutError, match="its writer has committed nothing more"):
                reader.next(0.01)
    with hub.create_channel("lossy", "uint8", 4, slots=16) as writer:
        with hub.open_channel("lossy", lossy=True) as reader:
            held = [passed_on(writer, reader) for _ in range(8)]
            writer.send(DATA)
            with pytest.raises(cuda_ipc.CudaIpcError, match=own + "8 messages that are") as caught:
                reader.next(0.01)
            assert caught.value.code == "LIMIT_EXCEEDED"
            held.clear()
            assert reader.next(LIMIT) is not None


# ---------------------------------------------------------------- services


@contextlib.contextmanager
def client_of(hub):
    def handler(request, reply):
        if request.json != "meta":
            reply.loan().data[:] = DATA
        return {"meta": request.json}

    with hub.serve("dropped", handler, request=("uint8", 4), reply=("uint8", 4)):
        with hub.connect_service("dropped") as client:
            yield client


def test_replies_that_are_dropped_hold_up_no_request(hub):
    with client_of(hub) as client:
        for value in range(20):
            assert client.request(DATA, meta=value, timeout=LIMIT).json == value
            assert client.request(DATA, timeout=LIMIT).array.tolist() == list(DATA)
        numpy = pytest.importorskip("numpy")
        for _ in range(10):
            assert numpy.asarray(client.request(DATA, timeout=LIMIT).array).sum() == sum(DATA)


def test_a_reply_without_data_holds_nothing(hub):
    with client_of(hub) as client:
        held = [client.request(DATA, meta="meta", timeout=LIMIT) for _ in range(10)]
        assert [reply.json for reply in held] == ["meta"] * 10
        assert [reply.array.tolist() for reply in held] == [[]] * 10
        for reply in held:
            reply.release()
            assert reply.closed


def test_a_request_whose_time_is_up_is_told_how_many_replies_this_process_holds(hub):
    with client_of(hub) as client:
        held = [client.request(DATA, timeout=LIMIT)]
        link = next(iter(client._links))
        while link._window.can_send:
            held.append(client.request(DATA, timeout=LIMIT))
        told = rf"this process itself \(process {os.getpid()}\) holds {len(held)} replies that are"
        with pytest.raises(TimeoutError, match=told):
            client.request(DATA, timeout=0.2)
        view = held[-1].array
        held.clear()
        client.request(DATA, timeout=LIMIT).release()
        assert view.tolist() == list(DATA)


def test_a_reply_that_is_dropped_by_a_collection_of_garbage_within_a_call_is_given_back(
    hub, monkeypatch
):
    with client_of(hub) as client:

        class Cycle:
            def __init__(self, reply):
                self.reply, self.itself = reply, self

        garbage = [Cycle(client.request(DATA, timeout=LIMIT))]
        link = next(iter(client._links))
        send = link.send

        def collecting(*given):
            garbage.clear()
            with link._lock:
                gc.collect()
            return send(*given)

        monkeypatch.setattr(link, "send", collecting)
        client.request(DATA, timeout=LIMIT).release()
        until("it is given back", lambda: link.held == 0)


def test_a_reply_that_outlives_its_client_is_dropped_in_peace(hub):
    with client_of(hub) as client:
        reply = client.request(DATA, timeout=LIMIT)
        client.close()
        assert code(lambda: reply.array) == "CLOSED"
        del reply
        gc.collect()
        assert isinstance(hub, cuda_ipc.Hub)
