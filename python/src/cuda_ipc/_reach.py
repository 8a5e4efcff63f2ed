"""Reaches the hub that listens, or starts one.

One process at a time starts a hub. In the end the hub's own lock decides which one serves.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from ._connection import Connection
from ._deadline import Deadline, GrowingPause
from ._hub_socket import check_folder, folder_owner, prepare_folder
from ._locks import is_locked
from ._packets import ConnectionEnded
from ._socket_twin import TwinCrowded, is_twin_held, try_connect_twin
from .errors import CudaIpcError, Farewell, system_error

#: How long to wait for another process to start a hub before starting one here.
_START_PATIENCE_S = 3.0


def _crowded() -> str:
    return "a hub listens there, and more clients connect than it can admit"


class HubTarget(NamedTuple):
    """The hub's address, and how to greet and start it."""

    path: str
    #: The users whose hub is trusted.
    trusted: frozenset[int]
    program: str
    #: Whether a hub may be started.
    start: bool
    #: Seconds that a hub which is started stays without clients and objects.
    idle: float | None


def reach(target: HubTarget, deadline: Deadline) -> Connection:
    """Connects, and starts a hub if none listens. Raises HUB_UNAVAILABLE, TIMEOUT."""
    began = time.monotonic()
    pauses = GrowingPause()
    while True:
        deadline.check(lambda: f"no hub listened there; {target.path}.log may say why")
        try:
            connection = try_connect(target, None, deadline)
            is_impatient = time.monotonic() - began > _START_PATIENCE_S
            if connection is None and not target.start and (is_impatient or not _starts(target)):
                folder = os.path.dirname(target.path)
                missing = "" if os.path.exists(folder) else f", and {folder} does not exist"
                raise CudaIpcError(
                    "HUB_UNAVAILABLE",
                    f"Cannot connect to a hub at {target.path}: none listens there{missing}",
                )
            if connection is None and target.start:
                connection = try_start(target, None, deadline, is_impatient)
            if connection is not None:
                return connection
        except Farewell:
            pass  # It was being stopped, and is gone in a moment.
        # Another hub is just starting or ending. In a moment it is there, or gone.
        time.sleep(pauses.next())


def try_start(
    target: HubTarget,
    session: int | None,
    deadline: Deadline,
    is_impatient: bool,
    pause: Callable[[float], object] = time.sleep,
) -> Connection | None:
    """Starts a hub, and connects to it.

    None if another process is starting one, or somebody has just removed the folder.

    `is_impatient`: another process may have been stopped while it was starting a hub. Raises
    HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, and as `try_connect`.
    """
    from ._locks import try_lock_file, unlock_file
    from ._node import hub_command
    from ._starting import start_hub

    command = hub_command(target.path, target.idle)
    owner = folder_owner(target.path)
    if owner is not None and owner != os.geteuid():
        raise CudaIpcError(
            "HUB_UNAVAILABLE",
            f"Cannot connect to a hub at {target.path}: none listens there, and user {owner} owns "
            "the folder and has to start one",
        )
    if not check_folder(target.path, frozenset({os.geteuid()})):
        prepare_folder(target.path)
    try:
        lock = try_lock_file(f"{target.path}.start")
    except CudaIpcError as wrong:
        if _is_folder_gone(wrong, target.path):
            return None
        if getattr(wrong.__cause__, "errno", None) != errno.EROFS:
            raise
        raise CudaIpcError(
            "HUB_UNAVAILABLE",
            f"Cannot connect to a hub at {target.path}: none listens there, and its folder is "
            "read-only here, so that none can be started",
        ) from wrong
    if lock is None and not is_impatient:
        return None

    def is_there() -> Connection | None:
        return try_connect(target, session, deadline, pause)

    try:
        # Again: the last holder of the lock may have started a hub since the caller looked.
        found = is_there()
        if found is None:
            found = start_hub(command, target.path, deadline, pause, is_there)
        return found
    except CudaIpcError as wrong:
        if not _is_folder_gone(wrong, target.path):
            raise
        return None
    finally:
        if lock is not None:
            unlock_file(lock)


def _is_folder_gone(wrong: CudaIpcError, path: str) -> bool:
    """Whether this process or the new hub failed because somebody has removed the folder again."""
    cause = wrong.__cause__
    if isinstance(cause, FileNotFoundError):
        return cause.filename in (f"{path}.start", f"{path}.log")
    return wrong.code == "HUB_UNAVAILABLE" and folder_owner(path) is None


def try_connect(
    target: HubTarget,
    session: int | None,
    deadline: Deadline,
    pause: Callable[[float], object] = time.sleep,
) -> Connection | None:
    """None if no hub listens. Tries again while a hub has no room in its queue."""
    path, trusted = target.path, target.trusted
    began = time.monotonic()
    pauses = GrowingPause(0.01)
    while True:
        try:
            dialled = _dial(path, trusted)
            connection = None if dialled is None else Connection(path, dialled, trusted)
        except TwinCrowded:
            deadline.check(_crowded)
            # WHY not for good: any user can take the twin's address and let nobody in.
            if time.monotonic() - began > _START_PATIENCE_S:
                return None
        except BlockingIOError:
            pass
        except OSError as cause:
            raise system_error(f"connect to the hub at {path}", cause) from cause
        else:
            if connection is None:
                return None
            try:
                connection.hello(target.program, session, deadline)
                return connection
            except ConnectionEnded:
                final = connection.ended
                if isinstance(final, CudaIpcError):
                    raise final from None
            except BaseException:
                connection.end(None)
                raise
        deadline.check(_crowded)
        pause(pauses.next())


def _dial(path: str, trusted: frozenset[int]) -> socket.socket | None:
    """None if nobody listens. A hub that has lost its folder listens at the twin."""
    try:
        if not check_folder(path, trusted):
            return try_connect_twin(path, trusted)
    except CudaIpcError:
        twin = try_connect_twin(path, trusted)
        if twin is None:
            raise
        return twin
    dialled = socket.socket(
        socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
    try:
        dialled.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        dialled.close()
        return try_connect_twin(path, trusted)
    except BaseException:
        dialled.close()
        raise
    return dialled


def _starts(target: HubTarget) -> bool:
    """Whether a hub is about to listen, if none does.

    One that starts takes the lock first, and one whose files were removed has the twin's address.
    """
    return is_locked(f"{target.path}.lock") or is_twin_held(target.path)


def own_program() -> str:
    import sys

    return os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "python") or "python"
