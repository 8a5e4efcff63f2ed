"""A client of another user whose command line nobody can read: /proc/PID/cmdline never answers.

The kernel reads it under the lock of the process's memory (mmap_lock). One thread unmaps a FUSE
file that it has written to. The kernel then writes the file back under that lock, and its server
does not answer. Needs root and /dev/fuse to mount the file, in a namespace of its own.
Arguments: the user, and the hub's socket. Prints "here" once the lock is held.
"""

import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading

user, hub = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
FILE_MODE, PAGE = 0o100666, 4096
PR_SET_PDEATHSIG = 1
CLONE_NEWNS, MS_PRIVATE_REC, MS_NOSUID_NODEV = 0x20000, 0x44000, 6
FOLDER = b"/mnt"
is_held = threading.Event()


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def attributes(mode):
    facts = (2 if mode == FILE_MODE else 1, PAGE, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, PAGE, 0)
    return struct.pack("<QQQQQQIIIIIIIIII", *facts)


def serve(device):
    """Answers everything but writes (16) and flushes (25)."""
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError:
            return
        _, operation, number, node = struct.unpack("<IIQQ", request[:24])
        answers = {
            1: lambda: struct.pack("<QQQQII", 2, 0, 1000, 1000, 0, 0) + attributes(FILE_MODE),
            3: lambda: struct.pack("<QII", 1000, 0, 0) + attributes(
                0o40777 if node == 1 else FILE_MODE
            ),
            14: lambda: struct.pack("<QII", 1, 0, 0),
            15: lambda: bytes(PAGE),
            26: lambda: struct.pack(
                "<IIIIHHIIHHI28x", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, 0
            ),
        }
        if operation == 16:
            is_held.set()
        if operation in (2, 16, 25):
            continue
        data = answers[operation]() if operation in answers else b""
        error = 0 if operation in answers else 38
        os.write(device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)


def attack():
    """Runs in the child, as the attacker."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    die_with_parent()
    file = os.open(FOLDER + b"/file", os.O_RDWR)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(hub)
    hello = {"v": 1, "id": 1, "op": "hello", "client": {"version": "0", "program": "unreadable"}}
    link.send(json.dumps(hello).encode())
    link.recv(65536)
    address = libc.mmap(None, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    ctypes.memset(address, 1, 1)
    threading.Thread(target=libc.munmap, args=(address, PAGE)).start()
    # A thread that waits to change the memory keeps all others from reading it.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    while True:
        libc.mmap(None, PAGE, mmap.PROT_READ, private, -1, 0)


die_with_parent()
assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
assert libc.mount(None, b"/", None, MS_PRIVATE_REC, None) == 0, os.strerror(ctypes.get_errno())
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
mounted = libc.mount(b"unreadable", FOLDER, b"fuse", MS_NOSUID_NODEV, options)
assert mounted == 0, os.strerror(ctypes.get_errno())
if os.fork() == 0:
    os.close(device)
    attack()
threading.Thread(target=serve, args=(device,), daemon=True).start()
threading.Thread(target=lambda: (os.wait(), os._exit(1))).start()
is_held.wait()
print(json.dumps("here"), flush=True)
