"""The forms for asyncio, as the table in docs/python.md names them, beside a hub that is stopped.

A call that can wait and is not in the table fails these tests, and so does one without a case here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import re
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from conftest import LIMIT, ROOT, calls_under_way, under_way, until

import cuda_ipc
from cuda_ipc._memory import COPIED_AT_A_TIME, HostAllocation

numpy = pytest.importorskip("numpy")

#: The event loop turns this often while a call is under way.
TURNS = 100
#: Given in seconds to calls that nothing will end.
SHORT = 0.05


# ---------------------------------------------------------------- the table


def table() -> dict[str, tuple[str, str]]:
    """By call, its form for asyncio and what it waits for."""
    page = (ROOT / "docs/python.md").read_text()
    section = page.split("\n## asyncio\n")[1].split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        calls, forms, waits_for = (cell.strip() for cell in line.strip("|").split("|"))
        names = re.findall(r"`([\w.]+)`", calls)
        given = re.findall(r"`(\w+_async)`", forms)
        given = given * len(names) if len(given) == 1 else given
        assert len(names) == len(given), f"a form for each call: {line}"
        for name, form in zip(names, given, strict=True):
            assert name not in found, f"{name} is there twice"
            owner = name.rpartition(".")[0]
            found[name] = (f"{owner}.{form}" if owner else form, waits_for)
    return found


TABLE = table()
#: They wait for a GPU, and never for the hub or another process: test_gpu_asyncio tries them.
OF_GPU = {name for name, (_, waits_for) in TABLE.items() if waits_for.endswith("a GPU")}
MODULES = ("interop", "jax", "numpy", "torch")


def public_functions() -> Iterator[tuple[str, Any]]:
    """Functions and methods, with their names such as `connect`, `Hub.put`, `torch.load_file`."""
    for name in cuda_ipc.__all__:
        value = getattr(cuda_ipc, name)
        if isinstance(value, type):
            yield from methods(name, value)
        elif name in MODULES:
            for member, found in vars(value).items():
                if getattr(found, "__module__", None) != value.__name__ or member.startswith("_"):
                    continue
                if isinstance(found, type):
                    yield from methods(f"{name}.{member}", found)
                elif inspect.isfunction(found):
                    yield f"{name}.{member}", found
        elif callable(value):
            yield name, value


def methods(name: str, owner: type) -> Iterator[tuple[str, Any]]:
    """Those that the package has made, and not what a class has of Python's own."""
    for member in dir(owner):
        made_by = next(each for each in owner.__mro__ if member in vars(each))
        is_own = made_by.__module__.startswith("cuda_ipc.")
        if is_own and not member.startswith("_") and callable(getattr(owner, member)):
            yield f"{name}.{member}", getattr(owner, member)


def resolved(path: str) -> Any:
    found: Any = cuda_ipc
    for part in path.split("."):
        found = getattr(found, part)
    return found


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(call).parameters)
    except ValueError:  # a builtin of the base class
        return {}


#: They wait for no process, no time and no GPU. A call that is here has no form for asyncio.
NEVER_WAIT = re.findall(
    r"\S+",
    """
    Array.numpy ServiceMessage.numpy SlotToFill.numpy Message.numpy Message.lend
    ChannelObserver.close ChannelObserver.statistics ChannelReader.drop ChannelReader.try_next
    ChannelWriter.try_loan Slot.close
    Hub.connect_service Hub.on_end Hub.on_reconnect ServiceRequest.check
    OwnedTimeline.signal Timeline.reached Timeline.read
    SharedArray.forget SharedBundle.detach
    hub_socket_path rank_from_environment
    interop.plain_handle interop.open_handle interop.open_pool interop.Pool.open
    interop.RawHandle.document
    jax.retyped jax.viewer jax.copier numpy.retyped
    torch.view torch.current_stream torch.empty torch.shareable
    """,
)


def unlisted(functions: Iterator[tuple[str, Any]], calls: set[Any]) -> list[str]:
    """Of these functions, those that are not listed, under any name."""
    return [name for name, call in functions if not name.endswith("_async") and call not in calls]


def test_each_public_call_is_in_the_table_or_is_known_never_to_wait():
    calls = {resolved(name) for name in TABLE}
    never = {resolved(name) for name in NEVER_WAIT}
    assert len(TABLE) > 40
    assert unlisted(public_functions(), calls | never) == []
    # With a limit of time it waits.
    assert [name for name in NEVER_WAIT if "timeout" in parameters(resolved(name))] == []
    assert not calls & never
    assert not set(NEVER_WAIT) - set(dict(public_functions()))


def test_a_new_call_would_be_found():
    new = [("Hub.fetch", print), ("Hub.fetch_async", print), ("Hub.list", cuda_ipc.Hub.list)]
    assert unlisted(iter(new), {cuda_ipc.Hub.list}) == ["Hub.fetch"]
    assert "interop.Pool.open" in dict(public_functions())


def test_each_form_for_asyncio_is_in_the_table():
    forms = {resolved(form) for form, _ in TABLE.values()}
    missing = [
        name for name, call in public_functions() if name.endswith("_async") and call not in forms
    ]
    assert missing == []


@pytest.mark.parametrize("name", TABLE)
def test_a_form_for_asyncio_takes_what_its_call_takes(name):
    call, form = resolved(name), resolved(TABLE[name][0])
    assert inspect.iscoroutinefunction(form)
    assert form.__name__ == f"{call.__name__}_async"
    assert f"As `{call.__name__}`, for asyncio" in form.__doc__
    wanted, found = parameters(call), parameters(form)
    if name == "Timeline.wait":
        del wanted["stream"]  # such a call does not wait
    if name == "Hub.serve":
        wanted["handler"] = wanted["handler"].replace(annotation="AsyncHandler")
    assert list(found.values()) == list(wanted.values())


# ---------------------------------------------------------------- a stopped hub


class Case(NamedTuple):
    """How to call the form for asyncio, and how such a call ends beside a stopped hub."""

    call: Callable[[cuda_ipc.Hub, Any, float], Awaitable[object]]
    #: Makes what the call needs, before the hub is stopped.
    given: Callable[[cuda_ipc.Hub], Any] = lambda hub: None
    #: "hub": by TIMEOUT, which names the hub. "peer": by TIMEOUT. "close": it does not fail.
    ends: str = "hub"


@contextlib.asynccontextmanager
async def full_channel(hub: cuda_ipc.Hub) -> AsyncIterator[cuda_ipc.ChannelWriter]:
    """The writer of a channel without room."""
    with hub.create_channel("full", "uint8", 1, slots=1) as writer:
        with hub.open_channel("full"):
            writer.send(b"1")
            yield writer


@contextlib.asynccontextmanager
async def empty_channel(hub: cuda_ipc.Hub) -> AsyncIterator[cuda_ipc.ChannelReader]:
    with hub.create_channel("empty", "uint8", 1), hub.open_channel("empty") as reader:
        yield reader


@contextlib.asynccontextmanager
async def reply_without_turn(hub: cuda_ipc.Hub) -> AsyncIterator[cuda_ipc.Reply]:
    """The reply to a request while another reply to the same client has the slot."""
    replies: list[cuda_ipc.Reply] = []
    both, end = asyncio.Event(), asyncio.Event()

    async def handler(request: cuda_ipc.ServiceRequest, reply: cuda_ipc.Reply) -> None:
        replies.append(reply)
        if len(replies) == 1:
            await reply.loan_async()
        else:
            both.set()
        await end.wait()

    one = ("uint8", 1)
    async with await hub.serve_async(
        "turns", handler, request=one, reply=one, concurrency=2, clients_max=1
    ):
        async with hub.connect_service("turns") as client:
            requests = [asyncio.ensure_future(client.request_async(meta=n)) for n in range(2)]
            await both.wait()
            yield replies[1]
            end.set()
            for message in await asyncio.gather(*requests):
                message.release()


@contextlib.asynccontextmanager
async def two_members(_: cuda_ipc.Hub) -> AsyncIterator[cuda_ipc.Group]:
    name = f"asyncio-{os.getpid()}"
    first, second = await asyncio.gather(
        *(cuda_ipc.Group.join_async(name, rank=rank, size=2, timeout=LIMIT) for rank in range(2))
    )
    with second:
        async with first:
            yield first


async def answers(request: cuda_ipc.ServiceRequest, reply: cuda_ipc.Reply) -> None:
    pass


def model(hub: cuda_ipc.Hub) -> None:
    with hub.create_bundle("model", {"weight": ("float32", 2)}) as bundle:
        bundle.publish()


def lone_member(_: cuda_ipc.Hub) -> cuda_ipc.Group:
    return cuda_ipc.Group.join(f"asyncio-{os.getpid()}", rank=0, size=1, timeout=LIMIT)


def case_of_load(module: str) -> Case:
    return Case(
        lambda hub, _, timeout: getattr(cuda_ipc, module).load_file_async(
            "model", hub=hub, timeout=timeout
        ),
        model,
    )


ONE = ("uint8", 1)
CASES = {
    "connect": Case(
        lambda hub, _, timeout: cuda_ipc.connect_async(
            hub.socket_path, start=False, timeout=timeout
        )
    ),
    "Hub.create": Case(lambda hub, _, timeout: hub.create_async("new", *ONE, timeout=timeout)),
    "Hub.create_bundle": Case(
        lambda hub, _, timeout: hub.create_bundle_async("new", {"w": ONE}, timeout=timeout)
    ),
    "Hub.create_channel": Case(
        lambda hub, _, timeout: hub.create_channel_async("new", *ONE, timeout=timeout)
    ),
    "Hub.create_timeline": Case(
        lambda hub, _, timeout: hub.create_timeline_async(
            "new", when_owner_gone="wait", timeout=timeout
        )
    ),
    "Hub.put": Case(
        lambda hub, _, timeout: hub.put_async("new", b"1", pinned=True, timeout=timeout)
    ),
    "Hub.share": Case(
        lambda hub, _, timeout: hub.share_async("new", numpy.ones(2), timeout=timeout)
    ),
    "SharedArray.publish": Case(
        lambda hub, array, timeout: array.publish_async(timeout), lambda hub: hub.create("a", *ONE)
    ),
    "SharedBundle.publish": Case(
        lambda hub, bundle, timeout: bundle.publish_async(timeout),
        lambda hub: hub.create_bundle("b", {"w": ONE}),
    ),
    "Hub.open": Case(
        lambda hub, _, timeout: hub.open_async("a", timeout=timeout), lambda hub: hub.put("a", b"1")
    ),
    "Hub.open_bundle": Case(
        lambda hub, _, timeout: hub.open_bundle_async("model", timeout=timeout), model
    ),
    "Hub.open_channel": Case(
        lambda hub, _, timeout: hub.open_channel_async("empty", timeout=timeout), empty_channel
    ),
    "Hub.open_timeline": Case(
        lambda hub, _, timeout: hub.open_timeline_async("t", timeout=timeout),
        lambda hub: hub.create_timeline("t"),
    ),
    "Hub.resume_channel": Case(
        lambda hub, _, timeout: hub.resume_channel_async("none", timeout=timeout)
    ),
    "Hub.resume_timeline": Case(
        lambda hub, _, timeout: hub.resume_timeline_async("none", timeout=timeout)
    ),
    "Hub.observe_channel": Case(
        lambda hub, _, timeout: hub.observe_channel_async("empty", timeout=timeout), empty_channel
    ),
    "Hub.list": Case(lambda hub, _, timeout: hub.list_async(timeout)),
    "Hub.inspect": Case(lambda hub, _, timeout: hub.inspect_async("none", timeout)),
    "Hub.status": Case(lambda hub, _, timeout: hub.status_async(timeout)),
    "Hub.remove": Case(lambda hub, _, timeout: hub.remove_async("none", timeout)),
    "Hub.stop": Case(lambda hub, _, timeout: hub.stop_async(timeout=timeout)),
    "torch.load_file": case_of_load("torch"),
    "torch.load_model": Case(
        lambda hub, _, timeout: cuda_ipc.torch.load_model_async(
            object(), "model", hub=hub, timeout=timeout
        ),
        model,
    ),
    "numpy.load_file": case_of_load("numpy"),
    "jax.load_file": case_of_load("jax"),
    "ChannelReader.next": Case(
        lambda hub, reader, timeout: reader.next_async(timeout), empty_channel, "peer"
    ),
    "ChannelWriter.loan": Case(
        lambda hub, writer, timeout: writer.loan_async(timeout), full_channel, "peer"
    ),
    "ChannelWriter.send": Case(
        lambda hub, writer, timeout: writer.send_async(b"2", timeout=timeout), full_channel, "peer"
    ),
    "ChannelWriter.wait_for_readers": Case(
        lambda hub, writer, timeout: writer.wait_for_readers_async(2, timeout),
        full_channel,
        "peer",
    ),
    "Timeline.wait": Case(
        lambda hub, timeline, timeout: timeline.wait_async(1, timeout, spin=0),
        lambda hub: hub.create_timeline("t"),
        "peer",
    ),
    "Hub.serve": Case(
        lambda hub, _, timeout: hub.serve_async("new", answers, request=ONE, timeout=timeout)
    ),
    "Service.wait": Case(
        lambda hub, service, timeout: service.wait_async(timeout),
        lambda hub: hub.serve("waits", lambda request, reply: None, request=ONE),
        "peer",
    ),
    "ServiceClient.request": Case(
        lambda hub, client, timeout: client.request_async(meta=1, timeout=timeout),
        lambda hub: hub.connect_service("none"),
        "peer",
    ),
    "Reply.loan": Case(
        lambda hub, reply, timeout: asyncio.wait_for(reply.loan_async(), timeout),
        reply_without_turn,
        "peer",
    ),
    "Group.join": Case(
        lambda hub, _, timeout: cuda_ipc.Group.join_async(
            f"asyncio-{os.getpid()}", rank=0, size=2, timeout=timeout
        ),
        ends="peer",
    ),
    "Group.barrier": Case(
        lambda hub, group, timeout: group.barrier_async(timeout), two_members, "peer"
    ),
    "Group.all_gather": Case(
        lambda hub, group, timeout: group.all_gather_async(1, timeout), two_members, "peer"
    ),
    "Hub.close": Case(lambda hub, _, timeout: hub.close_async(), ends="close"),
    "Group.close": Case(lambda hub, group, timeout: group.close_async(), lone_member, "close"),
    "Service.close": Case(
        lambda hub, service, timeout: service.close_async(timeout),
        lambda hub: hub.serve("closes", lambda request, reply: None, request=ONE),
        "close",
    ),
    "ServiceClient.close": Case(
        lambda hub, client, timeout: client.close_async(timeout),
        lambda hub: hub.connect_service("none"),
        "close",
    ),
    "ChannelReader.close": Case(
        lambda hub, reader, timeout: reader.close_async(timeout), empty_channel, "close"
    ),
    "ChannelWriter.close": Case(
        lambda hub, writer, timeout: writer.close_async(timeout), full_channel, "close"
    ),
    "ChannelWriter.end": Case(
        lambda hub, writer, timeout: writer.end_async(timeout), full_channel, "close"
    ),
    "Timeline.close": Case(
        lambda hub, timeline, timeout: timeline.close_async(timeout),
        lambda hub: hub.create_timeline("t"),
        "close",
    ),
}


def test_each_call_of_the_table_is_tried_and_the_table_says_which_wait_for_the_hub():
    assert sorted(CASES) == sorted(set(TABLE) - OF_GPU)
    assert len(OF_GPU) > 9
    of_hub = {name for name, (_, waits_for) in TABLE.items() if waits_for.startswith("the hub")}
    assert of_hub == {name for name, case in CASES.items() if case.ends == "hub"}
    assert {name for name, case in CASES.items() if case.ends == "close"} == {
        name for name in set(TABLE) - OF_GPU if name.endswith((".close", ".end"))
    }


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        until("it stands still", lambda: state_of(pid) == "T")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.asynccontextmanager
async def given_to(case: Case, hub: cuda_ipc.Hub) -> AsyncIterator[Any]:
    made = case.given(hub)
    if isinstance(made, contextlib.AbstractAsyncContextManager) and not hasattr(made, "close"):
        async with made as given:
            yield given
        return
    try:
        yield made
    finally:
        if made is not None:
            made.close()


class Facts(NamedTuple):
    names: list[str]
    leases: int


def facts(hub: cuda_ipc.Hub) -> Facts:
    return Facts([info.name for info in hub.list()], len(hub._link._leases))


@pytest.fixture
def kept(socket: str, nothing_left_over: None) -> Iterator[cuda_ipc.Hub]:
    """Another client with an object, so that the hub refuses to stop."""
    with cuda_ipc.connect(socket) as other:
        other.put("kept", b"1")
        yield other


@pytest.mark.parametrize("name", CASES)
def test_the_loop_continues_beside_a_stopped_hub_and_a_cancelled_call_leaves_nothing(
    name, hub, kept
):
    case, pid = CASES[name], int(hub.status()["pid"])
    is_close = case.ends == "close"

    async def main():
        async with given_to(case, hub) as given:
            before = facts(hub)
            with stopped(pid):
                task = asyncio.ensure_future(case.call(hub, given, LIMIT))
                await under_way(task, 1 if is_close else TURNS)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            if is_close:
                until("its close continues", lambda: (given or hub).closed)
            else:
                until("nothing is left", lambda: facts(hub) == before)

    asyncio.run(main())
    until("its thread ends", lambda: not calls_under_way())
    until("nothing is left", lambda: [info.name for info in kept.list()] == ["kept"])


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].ends != "close"])
def test_a_call_beside_a_stopped_hub_ends_in_time_with_the_error_that_is_documented(
    name, hub, kept
):
    case, pid = CASES[name], int(hub.status()["pid"])

    async def main():
        async with given_to(case, hub) as given:
            with stopped(pid):
                task = asyncio.ensure_future(case.call(hub, given, SHORT))
                await under_way(task, 1)
                with pytest.raises(TimeoutError) as caught:
                    await task
            return caught.value

    failure = asyncio.run(main())
    if name == "Reply.loan":  # it has no limit of its own
        return
    assert isinstance(failure, cuda_ipc.CudaIpcTimeout)
    if case.ends == "hub":
        assert f"the hub (process {pid}) does not answer: it is stopped" in str(failure)


# ---------------------------------------------------------------- closes


CLOSES = ("ChannelReader.close", "ChannelWriter.close", "ChannelWriter.end", "Timeline.close")


@pytest.mark.parametrize("name", CLOSES)
def test_a_close_that_waits_for_streams_lets_the_loop_continue(name, hub, monkeypatch):
    case = CASES[name]
    done = threading.Event()

    async def main():
        async with given_to(case, hub) as given:
            monkeypatch.setattr(given, "_finish", lambda deadline: done.wait(LIMIT))
            task = asyncio.ensure_future(case.call(hub, given, LIMIT))
            await under_way(task, TURNS)
            assert not given.closed
            done.set()
            await task
            assert given.closed

    asyncio.run(main())


def test_async_with_closes_off_the_loop(hub, monkeypatch):
    done = threading.Event()

    async def main():
        turns = 0

        async def turn():
            nonlocal turns
            while turns < TURNS:
                turns += 1
                await asyncio.sleep(0)
            done.set()

        async with await hub.create_timeline_async("t") as timeline:
            monkeypatch.setattr(timeline, "_finish", lambda deadline: done.wait(LIMIT))
            task = asyncio.ensure_future(turn())
        assert timeline.closed and done.is_set()
        await task

    asyncio.run(main())


# ---------------------------------------------------------------- cancellation


def test_the_words_for_a_full_channel_are_asked_for_off_the_loop(hub, monkeypatch):
    asked, done = threading.Event(), threading.Event()

    def inspect_later():
        asked.set()
        done.wait(LIMIT)
        return {0: "process 1, reader"}

    async def main():
        async with full_channel(hub) as writer:
            monkeypatch.setattr(writer, "_inspect", inspect_later)
            task = asyncio.ensure_future(writer.loan_async(0))
            while not asked.is_set():
                await asyncio.sleep(0)
            await under_way(task, TURNS)
            done.set()
            with pytest.raises(cuda_ipc.CudaIpcTimeout, match="process 1, reader"):
                await task
            monkeypatch.undo()

    asyncio.run(main())


@pytest.mark.parametrize(
    "create",
    [
        lambda hub: hub.put_async("new", b"1", pinned=True),
        lambda hub: hub.share_async("new", numpy.ones(2), pinned=True),
        lambda hub: hub.create_channel_async("new", "uint8", 1, pinned=True),
        lambda hub: hub.create_channel_async("new", "uint8", 1, when_writer_gone="wait"),
        lambda hub: hub.create_timeline_async("new", when_owner_gone="wait"),
    ],
    ids=["put", "share", "create_channel", "waiting channel", "create_timeline"],
)
def test_what_a_cancelled_call_has_published_meanwhile_is_removed(create, hub, kept, monkeypatch):
    pid = int(hub.status()["pid"])
    before = facts(hub)
    request, is_asked = hub._link.request, threading.Event()

    def stop_first(op, fields, deadline):
        if op == "publish":
            os.kill(pid, signal.SIGSTOP)
            until("it stands still", lambda: state_of(pid) == "T")
            is_asked.set()
        return request(op, fields, deadline)

    async def main():
        monkeypatch.setattr(hub._link, "request", stop_first)
        task = asyncio.ensure_future(create(hub))
        while not (is_asked.is_set() and hub._link._connection._pending):
            await under_way(task, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        until("its thread ends", lambda: not calls_under_way())

    try:
        asyncio.run(main())
    finally:
        monkeypatch.undo()
        os.kill(pid, signal.SIGCONT)
    until("nothing is left", lambda: facts(hub) == before)
    until("nothing is left", lambda: [info.name for info in kept.list()] == ["kept"])


def test_what_comes_after_the_cancellation_is_closed(hub, monkeypatch):
    before = facts(hub)
    create, is_made, go = type(hub)._register, threading.Event(), threading.Event()

    def slow(self, *arguments):
        held = create(self, *arguments)
        is_made.set()
        go.wait(LIMIT)
        return held

    async def main():
        monkeypatch.setattr(type(hub), "_register", slow)
        task = asyncio.ensure_future(hub.create_async("new", "uint8", 1))
        while not is_made.is_set():
            await under_way(task, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())  # the loop is closed before the call ends
    go.set()
    until("nothing is left", lambda: facts(hub) == before)


@pytest.mark.parametrize("has_result", [False, True])
def test_a_task_that_is_cancelled_just_before_it_gets_its_result_leaves_nothing(hub, has_result):
    before = facts(hub)

    async def main():
        task = asyncio.ensure_future(hub.create_async("new", "uint8", 1))
        await under_way(task, 1)
        until("the call ends", lambda: not calls_under_way())  # its task cannot know it yet
        assert len(facts(hub).names) == 1 + len(before.names)
        if has_result:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until("nothing is left", lambda: facts(hub) == before)


def test_a_call_that_is_cancelled_before_it_asks_sends_nothing(hub, monkeypatch):
    array = hub.create("late", "uint8", 1)
    began, go = threading.Event(), threading.Event()

    def finish():
        began.set()
        go.wait(LIMIT)

    async def main():
        monkeypatch.setattr(array._memory, "finish", finish)
        task = asyncio.ensure_future(array.publish_async())
        while not began.is_set():
            await under_way(task, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    go.set()
    until("its thread ends", lambda: not calls_under_way())
    assert not hub.inspect("late")[0].published
    monkeypatch.undo()
    array.publish()
    assert hub.inspect("late")[0].published


def test_wait_for_ends_a_call_and_the_hub_can_be_used_again(hub):
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hub.open_async("nobody", timeout=None), SHORT)
        async with await hub.create_channel_async("again", "uint8", 1) as writer:
            async with await hub.open_channel_async("again") as reader:
                await writer.wait_for_readers_async(1)
                await writer.send_async(b"1")
                with await reader.next_async(LIMIT) as message:
                    return bytes(message.data)

    assert asyncio.run(main()) == b"1"


def test_a_cancelled_load_without_a_hub_leaves_no_client(hub, monkeypatch):
    monkeypatch.setenv("CUDA_IPC_SOCKET", hub.socket_path)

    async def main():
        load = cuda_ipc.numpy.load_file_async("nobody", wait=True, timeout=None)
        task = asyncio.ensure_future(load)
        while (await hub.status_async())["clients"] == 1:
            await under_way(task, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await hub.status_async())["clients"] > 1:
            pass

    asyncio.run(main())


# ---------------------------------------------------------------- what else stops an event loop


def test_a_hub_that_the_program_drops_is_left_without_waiting_for_it(socket, kept, monkeypatch):
    hub = cuda_ipc.connect(socket)
    until("both are there alone", lambda: kept.status()["clients"] == 2)

    def ask(*_):
        raise AssertionError("it waits for the hub")

    monkeypatch.setattr(hub._link._connection, "ask", ask)
    ended = hub._link
    del hub
    assert ended.ended is not None
    until("the hub knows", lambda: kept.status()["clients"] == 1)


def test_a_large_copy_gives_other_threads_their_turns():
    memory = HostAllocation(3 * COPIED_AT_A_TIME)
    pieces = []

    class Buffer:
        def __setitem__(self, where, piece):
            pieces.append((where.start, where.stop, len(piece)))

    memory.buffer = Buffer()
    memory.write(5, memoryview(bytes(2 * COPIED_AT_A_TIME + 1)))
    at = [5, 5 + COPIED_AT_A_TIME, 5 + 2 * COPIED_AT_A_TIME, 6 + 2 * COPIED_AT_A_TIME]
    assert pieces == [(a, b, b - a) for a, b in itertools.pairwise(at)]


def test_a_large_array_is_put_whole(hub):
    values = numpy.arange((3 * COPIED_AT_A_TIME + 12) // 4, dtype="float32")
    assert (hub.put("large", values).numpy() == values).all()
