"""Groups and memory while something goes wrong: forks, threads that race, too few descriptors."""

from __future__ import annotations

import errno
import os
import signal
import threading

import pytest
from conftest import LIMIT, SOURCE, Peer, code, sys

from cuda_ipc import Group, _shareable
from cuda_ipc._deadline import Deadline
from cuda_ipc._group import admission, host
from cuda_ipc._group.admission import Address
from cuda_ipc._group.host import GroupHost
from cuda_ipc._group.join import join_host

pytestmark = pytest.mark.usefixtures("ends_in_time")

FORKS = (
    "import os, sys; sys.path.insert(0, sys.argv[1])\n"
    "import cuda_ipc\n"
    "group = cuda_ipc.Group.join(path=sys.argv[2], rank=0, size=1)\n"
    "parent = os.getpid()\n"
    "if os.fork() == 0:\n"
    "    print(parent, flush=True); sys.stdin.read(); os._exit(0)\n"
    "sys.stdin.read()\n"
)


def test_a_child_of_fork_does_not_keep_the_name_of_its_dead_parent(tmp_path):
    path = str(tmp_path / "s")
    peer = Peer([sys.executable, "-c", FORKS, SOURCE, path])
    try:
        os.kill(peer.said(), signal.SIGKILL)
        peer.child.wait(LIMIT)
        Group.join(path=path, rank=0, size=1).close()
    finally:
        peer.close()


def test_memory_that_ends_in_a_child_of_fork_waits_for_no_thread_of_the_parent():
    memory = _shareable.new_memory(10, None)
    held, free = threading.Event(), threading.Event()

    def hold():
        with _shareable._lock:
            held.set()
            free.wait(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(LIMIT)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(LIMIT / 6))
        del memory
        os._exit(0)
    thread.join(LIMIT)
    assert os.waitpid(child, 0)[1] == 0
    assert _shareable.new_memory(10, None) is not None


def test_a_host_whose_thread_is_woken_as_it_closes_writes_to_no_other_descriptor(
    tmp_path, monkeypatch
):
    one = GroupHost(Address(str(tmp_path / "s"), 2, "a group"))
    one.listen()
    assert one._changed.acquire(timeout=LIMIT)
    one._changed.release()
    write = os.eventfd_write

    def late(fd, value):
        if fd == one._wake_fd and threading.current_thread() is not one._thread:
            client = host.socket.socket(host.socket.AF_UNIX, host.socket.SOCK_SEQPACKET)
            with client:
                client.connect(one._address.path)
                one._thread.join(0.5)
        write(fd, value)

    while not one._runs:
        pass
    monkeypatch.setattr(os, "eventfd_write", late)
    one.close()
    assert not one._thread.is_alive()


def test_a_process_that_cannot_be_looked_at_is_refused_and_the_group_still_forms(
    tmp_path, monkeypatch
):
    path = str(tmp_path / "s")
    found = []
    first = threading.Thread(target=lambda: found.append(Group.join(path=path, rank=0, size=2)))
    first.start()

    def no_descriptor(pid):
        raise OSError(errno.EMFILE, "no descriptor is free")

    with monkeypatch.context() as patch:
        patch.setattr(admission, "start_ticks", no_descriptor)
        assert code(lambda: Group.join(path=path, rank=1, size=2, timeout=5)) == "TOO_MANY_FDS"
    Group.join(path=path, rank=1, size=2, timeout=5).close()
    first.join(LIMIT)
    found[0].close()


def test_rank_0_without_a_free_descriptor_gives_up_and_leaves_nothing(tmp_path, monkeypatch):
    path = str(tmp_path / "s")
    found = []
    first = threading.Thread(
        target=lambda: found.append(code(lambda: Group.join(path=path, rank=0, size=2)))
    )

    def no_descriptor(pid):
        raise OSError(errno.EMFILE, "no descriptor is free")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", no_descriptor)
        first.start()
        second = code(lambda: join_host(Address(path, 2, "the group"), 1, Deadline("join", LIMIT)))
        first.join(LIMIT)
    assert found == ["TOO_MANY_FDS"]
    assert second == "PEER_GONE"
