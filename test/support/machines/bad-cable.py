"""Carries packets between a TAP device in each of two network namespaces, badly, until killed."""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP = 2
IFF_NO_PI = 0x1000
FRAME_BYTES_MAX = 65536

settings = json.loads(sys.argv[1])
delay = settings.get("delayMs", 0) / 1000
jitter = settings.get("jitterMs", 0) / 1000
loss = settings.get("loss", 0)
duplicates = settings.get("duplicates", 0)


def open_end(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH", settings["device"].encode(), IFF_TAP | IFF_NO_PI)
    fcntl.ioctl(end, TUNSETIFF, request)
    return end


ends = [open_end(namespace) for namespace in settings["namespaces"]]
others = {ends[0]: ends[1], ends[1]: ends[0]}
waiting = []
count = 0


def accept(frame, to):
    global count
    if random.random() < loss:
        return
    for _ in range(2 if random.random() < duplicates else 1):
        count += 1
        at = time.monotonic() + delay + random.random() * jitter
        heapq.heappush(waiting, (at, count, to, frame))


def deliver():
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, to, frame = heapq.heappop(waiting)
        try:
            os.write(to, frame)
        except OSError:
            pass  # That end is down, or its queue is full: the packet is lost.


print("laid", flush=True)
while True:
    pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for end in select.select(ends, [], [], pause)[0]:
        try:
            while True:
                accept(os.read(end, FRAME_BYTES_MAX), others[end])
        except OSError:
            pass  # Nothing more to read, or that end is down.
    deliver()
