"""Descriptors that cannot be sent because this user has too many in flight are sent later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import LIMIT, SOURCE

pytestmark = pytest.mark.usefixtures("ends_in_time")

#: Nobody else uses this user. Root may have any number in flight.
USER = 12_388

PROGRAM = r"""
import array, errno, os, resource, socket, sys, threading

from cuda_ipc import CudaIpcError, _packets
from cuda_ipc._deadline import Deadline
from cuda_ipc._group.messages import send_with

# Here, because another user may have no access to the files of Python.
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
flooding, unread = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
flooding.setblocking(False)
unread.setblocking(False)
bell = os.eventfd(0)
many = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [bell] * 50))]

def flood():
    while True:
        try:
            flooding.sendmsg([b"x"], many)
        except OSError as full:
            assert full.errno == errno.ETOOMANYREFS, full
            return

def drain():
    for _ in range(100):
        try:
            _, fds, _, _ = socket.recv_fds(unread, 1, 50)
        except BlockingIOError:
            return
        for fd in fds:
            os.close(fd)

def sends_late(send, peer):
    flood()
    refused = threading.Event()
    rest = _packets.time.sleep

    class Time:
        sleep = staticmethod(lambda seconds: (refused.set(), rest(seconds)))

    _packets.time = Time
    sender = threading.Thread(target=send)
    sender.start()
    assert refused.wait(60)
    drain()
    sender.join(60)
    packet, fds, _, _ = socket.recv_fds(peer, 10, 1)
    assert (packet, len(fds)) == (b"late", 1)
    os.close(fds[0])

def says_who(send):
    flood()
    try:
        send()
    except CudaIpcError as told:
        assert told.code == "TIMEOUT"
        assert f"user {os.getuid()} has more file descriptors in flight" in str(told), told
        assert told.__cause__.errno == errno.ETOOMANYREFS
    else:
        raise AssertionError("it was sent")
    drain()

own, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own.setblocking(False)
hub = _packets.PacketSocket("/hub.sock", own, frozenset({os.getuid()}))
in_time, over = lambda: Deadline("send", 60.0), lambda: Deadline("send", 0.001)
sends_late(lambda: hub._send(b"late", [bell], in_time()), peer)
says_who(lambda: hub._send(b"late", [bell], over()))
sends_late(lambda: send_with(own, b"late", [bell], in_time()), peer)
says_who(lambda: send_with(own, b"late", [bell], over()))
print("done")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_descriptors_wait_while_their_user_has_too_many_in_flight():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(USER)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
