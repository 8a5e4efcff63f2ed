"""A real hub, processes of Node beside it, and the check that no test leaves a descriptor open."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from own_descriptors import assert_as_before, open_fds, warm_up, watch

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
SOURCE = str(HERE.parent / "src")
HUB_MAIN = ROOT / "build/src/hub/main.js"
LIMIT = 60.0

if SOURCE not in sys.path:
    sys.path.insert(0, SOURCE)

import cuda_ipc  # noqa: E402

needs_build = not HUB_MAIN.exists() or shutil.which("node") is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if needs_build:
        if os.environ.get("REQUIRE_PYTHON") == "1":
            raise RuntimeError(f"REQUIRE_PYTHON=1, but {HUB_MAIN} or node is missing")
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs node and build/src (npm test)"))


def calls_under_way() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cuda-ipc call"]


async def under_way(task: asyncio.Future[object], turns: int) -> None:
    """The event loop turns while the call waits."""
    for _ in range(turns):
        assert not task.done(), "it has ended, or has stopped the event loop"
        await asyncio.sleep(0)


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits for something that another process does."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.002)


def until_times_out(match: str, action: Callable[[float], object]) -> None:
    """Repeats it with twice the limit each time, until its TIMEOUT says this.

    WHY: on a busy machine a limit ends a wait before it has found out what to say.
    """
    limit = 0.1
    while True:
        with pytest.raises(TimeoutError) as late:
            action(limit)
        if re.search(match, str(late.value)):
            return
        assert limit < LIMIT / 4, str(late.value)
        limit *= 2


def code(action: Callable[[], object]) -> str:
    """The code of the error that it raises."""
    with pytest.raises(cuda_ipc.CudaIpcError) as caught:
        action()
    assert caught.value.remedy
    return caught.value.code


def ends_while_stopped(pid: int, action: Callable[[], object]) -> bool:
    """Whether the action ends while this process stands still. It is run to its end."""
    runs = threading.Thread(target=action)
    os.kill(pid, signal.SIGSTOP)
    try:
        runs.start()
        runs.join(LIMIT / 6)
        return not runs.is_alive()
    finally:
        os.kill(pid, signal.SIGCONT)
        runs.join(LIMIT)


def interrupted(action: Callable[[], object], is_waiting: Callable[[], object]) -> None:
    """Sends this thread a SIGINT, as Ctrl-C does, once it waits: it must raise KeyboardInterrupt.

    WHY until one has: of a signal just before a wait, Python knows nothing until the wait ends.
    """
    main, has_raised = threading.get_ident(), threading.Event()

    def ring(*_: object) -> None:
        if not has_raised.is_set():
            has_raised.set()
            raise KeyboardInterrupt

    def send() -> None:
        until("it waits", is_waiting)
        signal.pthread_kill(main, signal.SIGINT)
        while not has_raised.wait(0.1):
            signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, ring)
    thread = threading.Thread(target=send)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            action()
            thread.join(LIMIT)  # the signal may come a moment after the wait
        thread.join(LIMIT)
    finally:
        signal.signal(signal.SIGINT, before)


def hub_of(socket: str) -> int | None:
    """The process of the hub that listens there."""
    try:
        with cuda_ipc.connect(socket, reconnect=False, start=False) as hub:
            return int(hub.status()["pid"])
    except cuda_ipc.CudaIpcError:
        return None


class HubProcess:
    """A hub in a folder of its own, with its keeper."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="cuda-ipc-py-")
        self.socket = os.path.join(self.folder, "hub.sock")
        self.start()

    def start(self) -> None:
        child = subprocess.Popen(
            ["node", str(HUB_MAIN), "--socket", self.socket, "--idle-ms", "600000"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(self.folder, "log"), "ab"),
            start_new_session=True,
        )
        assert child.stdout is not None
        line = child.stdout.readline()
        child.stdout.close()
        assert json.loads(line).get("ready") is True, line
        self._children = [*getattr(self, "_children", []), child]

    def keepers(self) -> list[int]:
        """Each names the socket of its hub in its arguments."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                text = pathlib.Path(f"/proc/{entry}/cmdline").read_text()
            except (OSError, UnicodeDecodeError):
                continue
            arguments = text.split("\0")
            if any(a.endswith("/keeper/main.js") for a in arguments) and any(
                os.path.dirname(a) == self.folder for a in arguments
            ):
                found.append(int(entry))
        return found

    def kill(self) -> None:
        """Kills the hub alone. Its keeper starts the next one."""
        pid = hub_of(self.socket)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def kill_with_keeper(self) -> None:
        pid = hub_of(self.socket)
        until("a keeper runs", self.keepers)
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)  # or it would start another keeper
        for keeper in self.keepers():
            os.kill(keeper, signal.SIGKILL)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            try:
                with cuda_ipc.connect(self.socket, reconnect=False, start=False, timeout=5) as hub:
                    hub.stop(force=True)
                break
            except cuda_ipc.CudaIpcError as gone:
                if gone.code == "HUB_UNAVAILABLE" and not self.keepers():
                    break
        for child in self._children:
            child.wait(LIMIT)
        until("the keeper has ended", lambda: not self.keepers())
        shutil.rmtree(self.folder, ignore_errors=True)


class Peer:
    """Another process that prints a line of JSON at a time."""

    def __init__(self, command: list[str]) -> None:
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._heard = b""

    def said(self) -> Any:
        assert self.child.stdout is not None
        end = time.monotonic() + LIMIT
        while b"\n" not in self._heard:
            remaining = max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self.child.stdout], [], [], remaining)
            assert ready, f"the peer has said nothing for {LIMIT:g} s"
            part = os.read(self.child.stdout.fileno(), 65536)
            assert part != b"", f"the peer has ended: {self.child.wait(LIMIT)}"
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def tell(self, value: Any = None) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(value).encode() + b"\n")
        self.child.stdin.flush()

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(LIMIT)

    def finish(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        assert self.child.wait(LIMIT) == 0

    def close(self) -> None:
        self.child.kill()
        for stream in (self.child.stdin, self.child.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self.child.wait(LIMIT)


@pytest.fixture
def patient_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub may take as long as on a busy machine to explain a TIMEOUT."""
    from cuda_ipc import _connection
    from cuda_ipc._hub import channels
    from cuda_ipc._service import client_errors

    for module in (_connection, channels, client_errors):
        monkeypatch.setattr(module, "DEFAULT_MS_EXPLANATION", 1000 * LIMIT)


@pytest.fixture
def ends_in_time() -> Iterator[None]:
    """Ends each wait without a limit by an error, of the test and of its fixtures."""

    def ring(*_: object) -> None:
        raise AssertionError(f"the test has not ended within {1.5 * LIMIT:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 1.5 * LIMIT, LIMIT / 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def common_hub() -> Iterator[HubProcess]:
    process = HubProcess()
    yield process
    process.end()


@pytest.fixture
def socket(common_hub: HubProcess) -> str:
    return common_hub.socket


@pytest.fixture
def own_hub() -> Iterator[HubProcess]:
    process = HubProcess()
    yield process
    process.end()


@pytest.fixture(scope="session")
def warm_driver() -> None:
    watch()
    warm_up()


@pytest.fixture(autouse=True)
def nothing_left_over(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compares the open descriptors before and after each test."""
    if needs_build:
        yield
        return
    request.getfixturevalue("common_hub")
    request.getfixturevalue("warm_driver")
    before = open_fds()
    yield
    assert_as_before(before, LIMIT)


@pytest.fixture
def hub(socket: str, nothing_left_over: None) -> Iterator[cuda_ipc.Hub]:
    with cuda_ipc.connect(socket, program="pytest") as session:
        yield session


@pytest.fixture
def node(socket: str, nothing_left_over: None) -> Iterator[Callable[..., Peer]]:
    """Starts `peers/NAME.mjs` with the socket and further arguments."""
    peers: list[Peer] = []

    def start(name: str, *arguments: object, at: str | None = None) -> Peer:
        script = str(HERE / "peers" / f"{name}.mjs")
        peers.append(Peer(["node", script, at or socket, *map(str, arguments)]))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
def python(socket: str, nothing_left_over: None) -> Iterator[Callable[..., Peer]]:
    """Starts a program of Python with the socket and further arguments."""
    peers: list[Peer] = []

    def start(source: str, *arguments: object, at: str | None = None) -> Peer:
        head = (
            f"import sys; sys.path.insert(0, {SOURCE!r}); sys.dont_write_bytecode = True\n"
            "import json, cuda_ipc\n"
            "def say(value): print(json.dumps(value), flush=True)\n"
            "hub = cuda_ipc.connect(sys.argv[1], program='peer')\n"
        )
        command = [sys.executable, "-c", head + source, at or socket, *map(str, arguments)]
        peers.append(Peer(command))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()
