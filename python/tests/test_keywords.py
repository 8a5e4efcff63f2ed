"""An unknown keyword is a TypeError that names the one that was meant."""

from __future__ import annotations

import asyncio
import inspect
import os
import re

import pytest

import cuda_ipc


def refused(call, message):
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        call()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_keyword_of_typescript_names_the_one_of_python(hub):
    seconds = ' Did you mean "timeout" (in seconds)?'
    refused(lambda: hub.open("x", timeoutMs=5), f'open() has no argument "timeoutMs".{seconds}')
    refused(lambda: hub.open("x", timeout_ms=5), f'open() has no argument "timeout_ms".{seconds}')
    refused(lambda: hub.list(timeout_s=5), seconds)
    refused(lambda: hub.create_channel("x", "int8", 1, readersMax=2), 'Did you mean "readers_max"?')
    refused(lambda: hub.create_channel("x", "int8", 1, whenFull="wait"), '"when_full"?')
    refused(lambda: hub.put("x", b"a", replaced=True), 'Did you mean "replace"?')
    refused(lambda: hub.open("x", accces="read"), 'Did you mean "access"?')
    refused(lambda: hub.open("x", zzz=1), "It takes: name, access, wait, timeout.")
    refused(lambda: cuda_ipc.connect(hubIdleMs=5), 'Did you mean "hub_idle" (in seconds)?')
    refused(lambda: cuda_ipc.connect(reconnectTimeoutMs=5), '"reconnect_timeout" (in seconds)?')
    refused(lambda: cuda_ipc.numpy.load_file("x", timeoutMs=5), seconds)
    refused(lambda: cuda_ipc.torch.load_file("x", timeoutMs=5), seconds)
    refused(lambda: cuda_ipc.torch.load_model(None, "x", timeoutMs=5), seconds)
    refused(lambda: cuda_ipc.jax.load_file("x", timeoutMs=5), seconds)
    refused(lambda: cuda_ipc.Group.join("x", timeoutMs=5), seconds)
    refused(lambda: cuda_ipc.interop.open_handle(b"", byteOffset=1), 'Did you mean "byte_offset"?')
    with hub.create("keywords", "int8", 1) as array:
        refused(lambda: array.publish(timeoutMs=5), seconds)
    with hub.connect_service("keywords") as client:
        refused(lambda: client.request(b"a", timeoutMs=5), seconds)


def test_calls_that_wait_for_others_name_it(hub):
    seconds = ' Did you mean "timeout" (in seconds)?'
    with (
        hub.create_channel("keywords", "int8", 1) as writer,
        hub.open_channel("keywords") as reader,
    ):
        refused(lambda: writer.wait_for_readers(1, timeoutMs=5), seconds)
        refused(lambda: asyncio.run(writer.wait_for_readers_async(1, timeoutMs=5)), seconds)
        for close in (reader.close, writer.close, writer.end):
            refused(lambda close=close: close(timeoutMs=5), seconds)
        refused(lambda: asyncio.run(reader.close_async(timeoutMs=5)), seconds)
        assert not reader.closed and not writer.closed
    with hub.create_timeline("keywords") as timeline:
        refused(lambda: timeline.wait(1, timeoutMs=5), seconds)
        refused(lambda: asyncio.run(timeline.wait_async(1, timeoutMs=5)), seconds)
        refused(lambda: timeline.wait(1, spinMs=5), 'Did you mean "spin" (in seconds)?')
        refused(lambda: timeline.close(timeoutMs=5), seconds)
    with cuda_ipc.Group.join(f"keywords-{os.getpid()}", rank=0, size=1) as group:
        refused(lambda: group.barrier(timeoutMs=5), seconds)
        refused(lambda: group.all_gather(1, timeoutMs=5), seconds)
        refused(lambda: asyncio.run(group.barrier_async(timeoutMs=5)), seconds)
        group.barrier()


def test_a_coroutine_says_it_when_it_is_awaited(hub):
    async def opens():
        await hub.open_async("x", timeoutMs=5)

    refused(lambda: asyncio.run(opens()), 'Did you mean "timeout" (in seconds)?')
    assert inspect.iscoroutinefunction(cuda_ipc.Hub.open_async)
    assert inspect.iscoroutinefunction(cuda_ipc.connect_async)


def test_other_type_errors_are_as_they_were(hub):
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        hub.open()
    with pytest.raises(TypeError, match="data must be bytes"):
        hub.put("x", object())
    assert list(inspect.signature(hub.open).parameters) == ["name", "access", "wait", "timeout"]
