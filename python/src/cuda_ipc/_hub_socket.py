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

    Raises SOCKET_PATH_TOO_LONG, and UNSUPPORTED for a URL, of which a path would make folders.
    """
    chosen = os.fsdecode(path) if path else _default_path()
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", chosen):
        raise CudaIpcError(
            "UNSUPPORTED",
            f"Cannot use the socket {chosen}: it is a URL. Set CUDA_IPC_SOCKET to the path of a "
            f"socket file. Bridges reach hubs of other machines.",
        )
    # WHY: two slashes at the start stay otherwise. Others would hash another path for the twin.
    found = re.sub("^/+", "/", os.path.abspath(chosen))
    if len(os.fsencode(found)) > LIMIT_SOCKET_PATH_BYTES:
        raise CudaIpcError(
            "SOCKET_PATH_TOO_LONG",
            f"Cannot use the socket {found}: it has {len(os.fsencode(found))} bytes, at most "
            f"{LIMIT_SOCKET_PATH_BYTES} are possible",
        )
    return found


def _default_path() -> str:
    return os.environ.get("CUDA_IPC_SOCKET") or _own_path()


def _own_path() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # Another user's, as after `sudo -E` or `su`: with a folder of ours in it, its owner's programs
    # could not use theirs.
    if os.path.isabs(runtime) and _owner(runtime) == os.geteuid():
        return os.path.join(runtime, "cuda-ipc", "hub.sock")
    folder = os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(folder, f"cuda-ipc-{os.geteuid()}", "hub.sock")


def runtime_socket_path(file_name: str) -> str:
    """A path for another socket of this user, in a folder that is made if it is missing.

    It is the hub's folder, or the user's own one if the hub serves several users. Raises
    UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG.
    """
    folder = os.path.dirname(hub_socket_path())
    found = _look(folder)
    if found is not None:
        is_common = found.st_mode & 0o077 != 0 and found.st_mode & 0o022 == 0
        if found.st_uid != os.geteuid() or is_common:
            folder = os.path.dirname(_own_path())
    path = hub_socket_path(os.path.join(folder, file_name))
    prepare_folder(path)
    return path


def prepare_folder(path: str) -> None:
    """Makes the socket's folder if it is missing. Raises UNSAFE_RUNTIME_DIR."""
    folder = os.path.dirname(path)
    if _look(folder) is None:
        try:
            _make_folder(folder)
        except OSError as cause:
            raise system_error(f"make the folder {folder}", cause) from cause
    found = os.lstat(folder)
    wrong = _not_a_folder(found)
    if wrong is None and found.st_uid != os.geteuid():
        wrong = f"it belongs to user {found.st_uid}"
    if wrong is None and found.st_mode & 0o077:
        wrong = f"its mode is 0{stat.S_IMODE(found.st_mode):o}"
    if wrong is not None:
        raise _unsafe(folder, f"{wrong}; wanted a folder of user {os.geteuid()} with mode 0700")


def _make_folder(folder: str) -> None:
    if not os.path.exists(os.path.dirname(folder)):
        _make_folder(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return  # Another process has made it meanwhile. The caller checks it.
    # A umask such as 0777 takes bits of the owner, too.
    if os.lstat(folder).st_mode & 0o700 != 0o700:
        os.chmod(folder, 0o700)


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
    found = _look(folder)
    if found is None:
        return False
    wrong = _not_a_folder(found)
    if wrong is None and found.st_uid not in trusted:
        wrong = f"it belongs to user {found.st_uid}"
    if wrong is None and found.st_mode & 0o022:
        wrong = f"its mode is 0{stat.S_IMODE(found.st_mode):o}"
    if wrong is None:
        return True
    users = " or ".join(map(str, sorted(trusted)))
    raise _unsafe(folder, f"{wrong}; wanted a folder of user {users} that nobody else can write to")


def folder_owner(path: str) -> int | None:
    """The owner of the socket's folder; None if it is missing."""
    found = _look(os.path.dirname(path))
    return None if found is None else found.st_uid


def _owner(folder: str) -> int | None:
    """None if it is missing or cannot be looked at."""
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None


def _look(folder: str) -> os.stat_result | None:
    try:
        return os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as cause:
        raise system_error(f"look at the folder {folder}", cause) from cause


def _not_a_folder(found: os.stat_result) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    return None if stat.S_ISDIR(found.st_mode) else "it is not a folder"


def _unsafe(folder: str, found: str) -> CudaIpcError:
    message = f"Cannot use {folder} for the hub's socket: {found}{_led_there(folder)}"
    return CudaIpcError("UNSAFE_RUNTIME_DIR", message)


def _led_there(folder: str) -> str:
    """The environment variable that led to the folder."""
    socket = os.environ.get("CUDA_IPC_SOCKET")
    if socket:
        is_it = os.path.dirname(os.path.abspath(socket)) == folder
        return ". CUDA_IPC_SOCKET led there." if is_it else ""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    is_it = bool(runtime) and os.path.join(runtime or "", "cuda-ipc") == folder
    return ". XDG_RUNTIME_DIR led there." if is_it else ""


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end. The process is 0 if it cannot be seen."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", raw)
    return int(pid), int(uid)


def check_peer(path: str, connected: socket.socket, trusted: frozenset[int]) -> int:
    """The process of the hub. Raises UNTRUSTED_PEER."""
    pid, uid = peer_of(connected)
    if uid not in trusted:
        raise CudaIpcError(
            "UNTRUSTED_PEER",
            f"Cannot trust the hub at {path}: it runs as user {uid}, this process as "
            f"{os.geteuid()}. To trust another user than root, set CUDA_IPC_HUB_UID or hub_uid.",
        )
    return pid
