"""A hub whose folder is removed, or which is only just starting, is found all the same."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import tempfile
import threading

import pytest
from conftest import until

import cuda_ipc
from cuda_ipc import _reach
from cuda_ipc._deadline import Deadline
from cuda_ipc._locks import listen_at, try_lock_file, unlock_file
from cuda_ipc._socket_twin import TwinCrowded, _twin_name, try_connect_twin


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def test_a_hub_that_lost_its_folder_is_found(own_hub):
    with cuda_ipc.connect(own_hub.socket) as client:
        pid = client.status()["pid"]
        os.kill(pid, signal.SIGSTOP)
        until("it stands still", lambda: state_of(pid) == "T")
        shutil.rmtree(own_hub.folder)
        pathlib.Path(own_hub.folder).write_text("in the way of a folder")
        os.kill(pid, signal.SIGCONT)
        until("the hub knows", lambda: client.status()["troubles"])
        for start in (True, False):
            with cuda_ipc.connect(own_hub.socket, start=start) as found:
                assert found.status()["pid"] == client.status()["pid"]
        os.unlink(own_hub.folder)
        until("the hub is well", lambda: not client.status()["troubles"])


def test_a_hub_that_makes_its_folder_again_is_waited_for(own_hub):
    with cuda_ipc.connect(own_hub.socket) as client:
        shutil.rmtree(own_hub.folder)
        with cuda_ipc.connect(own_hub.socket, start=False) as found:
            assert found.status()["pid"] == client.status()["pid"]


def test_a_hub_that_has_its_lock_and_does_not_listen_yet_is_waited_for(
    own_hub, tmp_path, monkeypatch
):
    path = str(tmp_path / "hub.sock")
    lock = try_lock_file(f"{path}.lock")
    has_looked = threading.Event()
    is_locked = _reach.is_locked

    def look(lock_path):
        try:
            return is_locked(lock_path)
        finally:
            has_looked.set()

    monkeypatch.setattr(_reach, "is_locked", look)
    outcome = []

    def wait():
        try:
            cuda_ipc.connect(path, start=False).close()
        except cuda_ipc.CudaIpcError as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    has_looked.wait()
    os.symlink(own_hub.socket, path)
    waiting.join()
    unlock_file(lock)
    assert outcome == []


@pytest.mark.parametrize("is_long", [False, True])
def test_a_socket_file_appears_with_a_listener_behind_it(is_long):
    """Also where neither the path nor its name has room for a longer name."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as folder:
        _listen_in(folder, "x" * (107 - len(f"{folder}/")) if is_long else "x.sock", is_long)


def _listen_in(folder, name, is_long):
    path = os.path.join(folder, name)
    kind = (socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(*kind) as left_over:
        if not is_long:
            left_over.bind(f"{path}.new")
    with socket.socket(*kind) as listener, socket.socket(*kind) as client:
        listen_at(listener, path, 1)
        assert os.listdir(folder) == [name]
        assert os.stat(path).st_mode & 0o777 == 0o600
        client.connect(path)


@pytest.mark.parametrize("missing", [".start", ".log"])
def test_the_caller_tries_again_if_the_folder_goes_while_a_hub_is_started(
    tmp_path, monkeypatch, missing
):
    path = str(tmp_path / "folder" / "hub.sock")
    target = _reach.HubTarget(path, frozenset({os.geteuid()}), "test", True, 1.0)
    monkeypatch.setattr("cuda_ipc._node.hub_command", lambda _path, _idle: ["true"])
    if missing == ".start":
        monkeypatch.setattr(_reach, "prepare_folder", lambda _path: None)
    else:
        real = _reach.try_connect

        def removes(*args):
            shutil.rmtree(tmp_path / "folder")
            return real(*args)

        monkeypatch.setattr(_reach, "try_connect", removes)
    assert _reach.try_start(target, None, Deadline("start a hub", 10), False) is None


def test_a_twin_whose_queue_is_full_is_tried_again_until_the_deadline(tmp_path):
    path = str(tmp_path / "gone" / "hub.sock")
    trusted = frozenset({os.geteuid()})
    target = _reach.HubTarget(path, trusted, "test", False, None)
    clients = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as twin:
        twin.bind(f"\0{_twin_name(path)}")
        twin.listen(0)
        with pytest.raises(TwinCrowded):
            while True:
                clients.append(try_connect_twin(path, trusted))
        with pytest.raises(TimeoutError, match="more clients connect than it can admit"):
            _reach.try_connect(target, None, Deadline("connect", 0.05))
        # The listener ends during the first pause.
        assert (
            _reach.try_connect(target, None, Deadline("connect", 60), lambda _: twin.close())
            is None
        )
    for client in clients:
        client.close()
