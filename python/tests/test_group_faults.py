"""Groups and memory while something goes wrong: forks, threads that race, too few descriptors."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from conftest import LIMIT

from cuda_ipc import _shareable

pytestmark = pytest.mark.usefixtures("ends_in_time")

FORKS = (
    "import os, sys; sys.path.insert(0, sys.argv[1])\n"
    "import cuda_ipc\n"
    "group = cuda_ipc.Group.join(path=sys.argv[2], rank=0, size=1)\n"
    "if os.fork() == 0:\n"
    "    sys.stdin.read(); os._exit(0)\n"
    "print(os.getpid(), flush=True); sys.stdin.read()\n"
)


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
