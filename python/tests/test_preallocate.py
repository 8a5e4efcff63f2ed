"""`preallocate` takes the pages of new memory before the object has its name."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

import numpy
import pytest
from conftest import code, until

import cuda_ipc
from cuda_ipc import _deadline, _memory

MIB = 1 << 20
SIZE = 40 * MIB

CREATORS = {
    "create": lambda hub, **options: hub.create("x", "uint8", MIB, **options),
    "put": lambda hub, **options: hub.put("x", bytes(MIB), **options),
    "create_bundle": lambda hub, **options: hub.create_bundle(
        "x", {"a": ("uint8", MIB), "b": ("int8", 3)}, **options
    ),
    "create_channel": lambda hub, **options: hub.create_channel(
        "x", "uint8", MIB, meta_bytes_max=4096, **options
    ),
    "share": lambda hub, **options: hub.share("x", numpy.zeros(MIB), copy=True, **options),
}


def pages() -> dict[int, tuple[int, int]]:
    """Bytes and taken bytes of the memory files of this process, by inode."""
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{entry}").startswith("/memfd:cuda-ipc"):
                stat = os.stat(f"/proc/self/fd/{entry}")
                found[stat.st_ino] = stat.st_size, stat.st_blocks * 512
    return found


def pages_after(create) -> tuple[int, int]:
    """Bytes and taken bytes of the files that it makes."""
    before = pages()
    with create():
        new = [facts for inode, facts in pages().items() if inode not in before]
    return sum(size for size, _ in new), sum(taken for _, taken in new)


@pytest.fixture
def at_piece(monkeypatch):
    """Lets a test do something before the page at this offset is taken."""
    real = os.posix_fallocate

    def arm(offset, act):
        def fallocate(fd, at, length):
            if at == offset:
                act()
            real(fd, at, length)

        monkeypatch.setattr(os, "posix_fallocate", fallocate)

    return arm


@pytest.mark.parametrize("kind", CREATORS)
def test_all_pages_are_there(kind, hub):
    size, taken = pages_after(lambda: CREATORS[kind](hub, preallocate=True))
    assert size >= MIB
    assert taken >= size


def test_no_pages_are_there_without_it(hub):
    assert pages_after(lambda: hub.create("x", "uint8", SIZE)) == (SIZE, 0)
    assert pages_after(lambda: hub.create("x", "uint8", SIZE, preallocate=True)) == (SIZE, SIZE)


def test_the_charge_is_the_same_and_the_memory_is_zero(hub):
    with hub.create("x", "uint8", MIB):
        charged = hub.status()["hostBytes"]
    with hub.create("x", "uint8", MIB, preallocate=True) as array:
        assert hub.status()["hostBytes"] == charged
        assert not array.numpy().any()


@pytest.mark.parametrize("lacking", [errno.ENOSPC, errno.ENOMEM])
def test_pages_that_are_not_there_are_out_of_memory(lacking, hub, at_piece):
    def fail():
        raise OSError(lacking, os.strerror(lacking))

    at_piece(20 * MIB, fail)
    with pytest.raises(cuda_ipc.CudaIpcError) as caught:
        hub.create("x", "uint8", SIZE, preallocate=True)
    assert caught.value.code == "OUT_OF_MEMORY"
    assert str(caught.value).startswith(
        f'Cannot create "x": only {20 * MIB} of its {SIZE} bytes could be preallocated: '
        f"{errno.errorcode[lacking]}, "
    )
    at_piece(0, fail)
    assert code(lambda: CREATORS["create_channel"](hub, preallocate=True)) == "OUT_OF_MEMORY"
    assert hub.list(all=True) == []


def test_it_asks_between_pieces_how_much_is_left(hub, monkeypatch):
    monkeypatch.setattr(_memory, "available_bytes", lambda: 4096)
    with pytest.raises(cuda_ipc.CudaIpcError, match=r"only 16777216 of .*: 4096 bytes are avail"):
        hub.create("x", "uint8", SIZE, preallocate=True)
    assert hub.list(all=True) == []


def test_its_time_and_the_close_of_its_hub_end_it(socket, hub, at_piece):
    with pytest.raises(TimeoutError, match='Cannot create "x"'):
        hub.create("x", "uint8", SIZE, preallocate=True, timeout=0)
    other = cuda_ipc.connect(socket)
    at_piece(4 * MIB, other.close)
    assert code(lambda: other.create("x", "uint8", SIZE, preallocate=True)) == "CLOSED"
    assert hub.list(all=True) == []


def test_a_cancelled_task_ends_in_the_middle(hub, at_piece):
    before, taken = pages().keys(), []

    async def main():
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def cancel():
            loop.call_soon_threadsafe(task.cancel)
            until("it is cancelled", lambda: _deadline._of_thread.cancellation.cancelled)
            taken.extend(facts for inode, facts in pages().items() if inode not in before)

        at_piece(4 * MIB, cancel)
        with pytest.raises(asyncio.CancelledError):
            await hub.create_async("x", "uint8", SIZE, preallocate=True)

    asyncio.run(main())
    until("its thread gives the memory back", lambda: taken and not pages().keys() - before)
    assert taken == [(SIZE, 4 * MIB)]
    assert hub.list(all=True) == []
