"""Runs a command whose io_setup fails with EAGAIN, as if others had taken all of fs.aio-max-nr."""

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ERRNO = 0x50000
SECCOMP_RET_ALLOW = 0x7FFF0000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06

io_setup = 0 if platform.machine() == "aarch64" else 206
program = b"".join(
    struct.pack("HBBI", *line)
    for line in [
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 1, io_setup),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EAGAIN),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
    ]
)
code = ctypes.create_string_buffer(program)
# struct sock_fprog: the number of lines, and their address.
rules = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
for call in [
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, rules, 0, 0),
]:
    if prctl(*call) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execvp(sys.argv[1], sys.argv[1:])
