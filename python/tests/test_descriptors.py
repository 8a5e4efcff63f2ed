"""The check that a test leaves nothing open sees a leak of ours beside the driver's own."""

from __future__ import annotations

import ctypes
import os
import socket

import pytest
from own_descriptors import assert_as_before, left_over, open_fds

LIBC = ctypes.CDLL(None)


def of_driver() -> int:
    """A descriptor that no call of Python makes."""
    return int(LIBC.eventfd(0, os.EFD_CLOEXEC))


@pytest.mark.parametrize("has_driver", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: os.eventfd(0),
        lambda: os.memfd_create("cuda-ipc"),
        lambda: os.pidfd_open(os.getpid()),
        lambda: os.open("/dev/null", os.O_RDONLY),
        lambda: socket.socket().detach(),
    ],
    ids=["a bell", "host memory", "a process", "a file", "a socket"],
)
def test_each_kind_of_ours_is_seen(make, has_driver):
    before = open_fds()
    leaked = make()
    try:
        with pytest.raises(AssertionError, match="left open"):
            assert_as_before(before, 0, has_driver)
    finally:
        os.close(leaked)
    assert_as_before(before, 10, has_driver)


def test_memory_of_a_gpu_that_was_duplicated_received_or_exported_is_seen():
    before = open_fds()
    exported = of_driver()
    os.set_inheritable(exported, False)
    copied = os.dup(of := of_driver())
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        socket.send_fds(one, [b"x"], [of])
        _, (received,), _, _ = socket.recv_fds(other, 1, 1)
    # Its descriptors look like those of the driver's devices.
    now = {**before, **{fd: "/dev/nvidiactl" for fd in (exported, copied, received, of)}}
    try:
        assert set(left_over(before, now)) == {exported, copied, received}
    finally:
        for fd in (exported, copied, received, of):
            os.close(fd)


def test_the_driver_s_own_do_not_count_and_only_while_it_is_in_use():
    before = open_fds()
    made = of_driver()
    try:
        assert left_over(before, open_fds(), has_driver=True) == {}
        assert list(left_over(before, open_fds(), has_driver=False)) == [made]
        # A number that Python closed is not ours any more.
        mine = os.eventfd(0)
        os.close(mine)
        again = of_driver()
        assert again == mine
        assert left_over(before, open_fds(), has_driver=True) == {}
        LIBC.close(again)
    finally:
        LIBC.close(made)
