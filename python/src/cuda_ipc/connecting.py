"""Joins a hub."""

from __future__ import annotations

import math
import os

from ._deadline import Deadline, check_seconds
from ._device_names import Device, default_device
from ._hub_socket import hub_socket_path, trusted_users
from ._keywords import explains_keywords
from ._link import Link
from ._patched import refuse_patched
from ._protocol import DEFAULT_MS_CONNECT, DEFAULT_MS_RECONNECT
from ._reach import HubTarget, own_program
from ._waiting import async_form
from .errors import coded
from .hub import Hub


@explains_keywords
@coded("connect to a hub")  # its imports, too, open files
def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    program: str | None = None,
    device: Device | None = None,
    hub_uid: int | None = None,
    start: bool = True,
    hub_idle: float | None = None,
    reconnect: bool = True,
    reconnect_timeout: float = DEFAULT_MS_RECONNECT / 1000,
    timeout: float | None = DEFAULT_MS_CONNECT / 1000,
) -> Hub:
    """Joins the hub of this user, and starts one if none runs.

    `socket` is its path; by default CUDA_IPC_SOCKET, else one in the user's runtime folder.
    `program` names this process to others. `device` is that of calls that name none; by default
    CUDA_IPC_DEVICE, else "host". `hub_uid` is one more user whose hub is trusted; by default
    CUDA_IPC_HUB_UID.

    With `start`, a hub is started if none runs, in a folder of this user: the one of the wheel with
    Node.js, else by the command `cuda-ipc`. It ends after `hub_idle` seconds without clients and
    objects, by default 30. With `reconnect`, a thread of this package looks for the next hub for
    `reconnect_timeout` seconds if this one crashes, and registers again what is held.

    Raises HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, UNTRUSTED_PEER, PROTOCOL_MISMATCH, LIMIT_EXCEEDED,
    TIMEOUT, INVALID_DEVICE; UNSUPPORTED in a process that gevent or eventlet has patched;
    TypeError, ValueError.
    """
    deadline = Deadline("connect to a hub", timeout)
    refuse_patched("connect to a hub")
    if program is not None and not isinstance(program, str):
        raise TypeError(f"program must be a string, not {program!r}")
    if hub_uid is not None and (isinstance(hub_uid, bool) or not isinstance(hub_uid, int)):
        raise TypeError(f"hub_uid must be the number of a user, not {hub_uid!r}")
    check_seconds("reconnect_timeout", reconnect_timeout)
    if hub_idle is not None:
        check_seconds("hub_idle", hub_idle)
        if math.isinf(hub_idle):
            raise ValueError("hub_idle must be a finite number of seconds")
    default = default_device(device)
    path = hub_socket_path(socket)
    deadline.attempt = f"connect to the hub at {path}"
    name = own_program() if program is None else program
    target = HubTarget(path, trusted_users(hub_uid), name, start, hub_idle)
    link = Link(target, reconnect, reconnect_timeout, deadline)
    link.start()
    return Hub(link, default)


connect_async = async_form(connect)
