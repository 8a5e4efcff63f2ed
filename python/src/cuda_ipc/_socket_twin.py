"""The twin of a hub's socket: an abstract address, at which a hub listens that lost its folder.

`src/os/socket-twin.ts` says how it is named.
"""

from __future__ import annotations

import os
import socket

from ._hub_socket import peer_of


class TwinCrowded(BlockingIOError):
    """The queue of connections is full. Nothing tells whose it is."""


def try_connect_twin(path: str, trusted: frozenset[int]) -> socket.socket | None:
    """Connects to the hub of a trusted user. None if none listens there. Raises TwinCrowded."""
    name = _twin_name(path)
    if name is None:
        return None
    twin = socket.socket(
        socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
    try:
        twin.connect(f"\0{name}")
        # Anybody can take the address first. Nobody has to hear of that here.
        if peer_of(twin)[1] in trusted:
            return twin
    except BlockingIOError as full:
        twin.close()
        raise TwinCrowded from full
    except OSError:
        pass
    twin.close()
    return None


def is_twin_held(path: str) -> bool:
    """Whether a process has the address, whether it listens or not."""
    name = _twin_name(path)
    try:
        with open("/proc/net/unix", "rb") as file:
            return name is not None and f" @{name}\n".encode() in file.read()
    except OSError:
        return False


def _twin_name(path: str) -> str | None:
    """None without /proc."""
    try:
        mounts = os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return None
    value = 0xCBF29CE484222325
    for byte in os.fsencode(path):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"cuda-ipc/{mounts}/{value:016x}"
