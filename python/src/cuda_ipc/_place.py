"""The hub's socket: where it is, and whether its folder and its user can be trusted."""

from __future__ import annotations

import os
import re
import socket
import stat
import struct

from ._protocol import LIMIT_SOCKET_PATH_BYTES
from .errors import CudaIpcError, system_error

_ROOT = 0


def hub_socket_path(path: str | os.PathLike[str] | None = None) -> str:
    """The path of the hub's socket: the argument, else CUDA_IPC_SOCKET, else the user's folder.

    Raises SOCKET_PATH_TOO_LONG.
    """
    found = os.path.abspath(os.fspath(path) if path else _default_path())
    if len(os.fsencode(found)) > LIMIT_SOCKET_PATH_BYTES:
        raise CudaIpcError(
            "SOCKET_PATH_TOO_LONG",
            f"Cannot use the socket {found}: it has {len(os.fsencode(found))} bytes, at most "
            f"{LIMIT_SOCKET_PATH_BYTES} are possible",
        )
    return found


def _default_path() -> str:
    if chosen := os.environ.get("CUDA_IPC_SOCKET"):
        return chosen
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.exists(runtime):
        return os.path.join(runtime, "cuda-ipc", "hub.sock")
    folder = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(folder, f"cuda-ipc-{os.geteuid()}", "hub.sock")


def trusted_users(hub_uid: int | None) -> frozenset[int]:
    """This user, root, and the one that the argument or CUDA_IPC_HUB_UID names."""
    if hub_uid is None:
        text = os.environ.get("CUDA_IPC_HUB_UID", "")
        if text != "" and re.fullmatch(r"[0-9]{1,10}", text) is None:
            raise ValueError(f"CUDA_IPC_HUB_UID must be the number of a user, not {text!r}")
        hub_uid = int(text) if text else None
    return frozenset({os.geteuid(), _ROOT} | ({hub_uid} if hub_uid is not None else set()))


def check_folder(path: str, trusted: frozenset[int]) -> bool:
    """False if the folder is missing. Raises UNSAFE_RUNTIME_DIR if others could write to it."""
    folder = os.path.dirname(path)
    try:
        found = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as cause:
        raise system_error(f"look at the folder {folder}", cause) from cause
    if stat.S_ISLNK(found.st_mode):
        wrong = "it is a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        wrong = "it is not a folder"
    elif found.st_uid not in trusted:
        wrong = f"it belongs to user {found.st_uid}"
    elif found.st_mode & 0o022:
        wrong = f"its mode is 0{stat.S_IMODE(found.st_mode):o}"
    else:
        return True
    users = " or ".join(map(str, sorted(trusted)))
    raise CudaIpcError(
        "UNSAFE_RUNTIME_DIR",
        f"Cannot use {folder} for the hub's socket: {wrong}; wanted a folder of user {users} that "
        "nobody else can write to",
    )


def check_peer(path: str, connected: socket.socket, trusted: frozenset[int]) -> int:
    """The process of the hub. Raises UNTRUSTED_PEER."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", raw)
    if uid not in trusted:
        raise CudaIpcError(
            "UNTRUSTED_PEER",
            f"Cannot trust the hub at {path}: it runs as user {uid}, this process as "
            f"{os.geteuid()}. To trust another user than root, set CUDA_IPC_HUB_UID or hub_uid.",
        )
    return int(pid)
