"""A process that has no file descriptor left gets errors with a code, and loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import resource
import threading
from collections.abc import Iterator

import pytest
from conftest import LIMIT, until

import cuda_ipc

pytestmark = [
    pytest.mark.usefixtures("ends_in_time"),
    pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning"),
]

BYTES = ("uint8", 4)
numbers = itertools.count()


def name() -> str:
    return f"few:{next(numbers)}"


def is_free(fd: int) -> bool:
    try:
        os.fstat(fd)
        return False
    except OSError:
        return True


@contextlib.contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Only this many descriptors can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [fd for fd in range(1000) if is_free(fd)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def codes_of(call) -> list[str]:
    """The code of each failure, with no free descriptor, with one, and so on until it succeeds."""
    call()  # imports what it needs
    found = []
    for count in range(60):
        try:
            with free_descriptors(count):
                call()
            return found
        except cuda_ipc.CudaIpcError as refused:
            found.append(refused.code)
    raise AssertionError(f"it never succeeds: {found}")


CREATING = {
    "create": lambda hub: hub.create(name(), *BYTES),
    "put": lambda hub: hub.put(name(), b"1234"),
    "create_bundle": lambda hub: hub.create_bundle(name(), {"x": BYTES}),
    "create_channel": lambda hub: hub.create_channel(name(), *BYTES, readers_max=2),
    "create_timeline": lambda hub: hub.create_timeline(name()),
    "serve": lambda hub: hub.serve(name(), lambda *_: None, request=BYTES, clients_max=2),
    "open": lambda hub: hub.open("few:array"),
    "open_bundle": lambda hub: hub.open_bundle("few:bundle"),
    "open_timeline": lambda hub: hub.open_timeline("few:timeline"),
    "open_channel": lambda hub: hub.open_channel("few:channel"),
    "observe_channel": lambda hub: hub.observe_channel("few:channel"),
}


@pytest.mark.parametrize("call", CREATING)
def test_without_descriptors_a_call_of_the_hub_has_a_code(hub, call):
    with (
        hub.put("few:array", b"1234"),
        hub.create_bundle("few:bundle", {"x": BYTES}) as bundle,
        hub.create_timeline("few:timeline"),
        hub.create_channel("few:channel", *BYTES, readers_max=2),
    ):
        bundle.publish()
        found = codes_of(lambda: CREATING[call](hub).close())
        assert found and set(found) == {"TOO_MANY_FDS"}
        assert not hub.closed


def test_without_descriptors_connect_has_a_code(socket):
    assert set(codes_of(lambda: cuda_ipc.connect(socket).close())) == {"TOO_MANY_FDS"}


def test_without_descriptors_a_group_has_a_code(tmp_path):
    def join():
        path = str(tmp_path / str(next(numbers)))
        cuda_ipc.Group.join(path=path, rank=0, size=1).close()

    assert set(codes_of(join)) == {"TOO_MANY_FDS"}
    with free_descriptors(0), pytest.raises(cuda_ipc.CudaIpcError) as refused:
        cuda_ipc.Group.join(path=str(tmp_path / "none"), rank=1, size=2)
    assert refused.value.code == "TOO_MANY_FDS"


def test_without_descriptors_a_task_that_waits_for_a_message_has_a_code(hub):
    async def main():
        with hub.create_channel("few:wait", *BYTES) as writer, hub.open_channel("few:wait") as one:
            with free_descriptors(0), pytest.raises(cuda_ipc.CudaIpcError) as refused:
                await one.next_async(LIMIT)
            assert refused.value.code == "TOO_MANY_FDS"
            writer.send(b"1234")
            (await one.next_async(LIMIT)).release()

    asyncio.run(main())


def test_without_descriptors_a_request_waits_and_is_answered_when_there_are_some(hub):
    with hub.serve("few:service", lambda *_: None, request=BYTES):
        with hub.connect_service("few:service") as client:
            client.request(timeout=LIMIT).release()
        with hub.connect_service("few:service") as client:
            replies = []
            ask = threading.Thread(target=lambda: replies.append(client.request(timeout=LIMIT)))
            with free_descriptors(0):
                ask.start()
                unusable = client._search._unusable
                until("it cannot connect", lambda: list(unusable.values()))
                assert {one.code for one in list(unusable.values())} == {"TOO_MANY_FDS"}
            ask.join(LIMIT)
            assert len(replies) == 1
            replies[0].release()
