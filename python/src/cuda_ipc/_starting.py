"""Starts a hub as a process that outlives this one, and waits until it listens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ._deadline import Deadline, GrowingPause
from ._locks import open_own_file
from .errors import CudaIpcError, coded, error, system_error

_LAST_PAUSE_S = 0.02
_SHELL = "/bin/sh"
_READ_MAX = 65536
_LENGTH_MAX = 300


def start_hub(
    command: list[str],
    socket_path: str,
    deadline: Deadline,
    pause: Callable[[float], object],
    is_there: Callable[[], Any],
) -> Any:
    """Returns what `is_there` gives once a hub listens: this one, or another that was quicker.

    Raises HUB_UNAVAILABLE if it ends at once, and the error that it says; TIMEOUT.
    """
    log_path = f"{socket_path}.log"
    # WHY a pipe of our own: a signal may end this call at any moment, Popen included.
    with coded(f"start a hub with {command[0]}"):
        said, says = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    text = b""
    try:
        try:
            size_before = _log_size(log_path)
            _spawn(command, says, log_path)
        finally:
            os.close(says)
        pauses = GrowingPause(_LAST_PAUSE_S)
        while True:
            deadline.check(lambda: f"no hub listened there; {log_path} may say why")
            found = is_there()
            if found is not None:
                return found
            more, has_ended = _read(said)
            text += more
            if has_ended:
                _check(text, socket_path, log_path, size_before)
                return is_there()
            pause(pauses.next())
    finally:
        os.close(said)


# Yarn Plug'n'Play: Node.js finds no package without them.
_PLUG_AND_PLAY = re.compile(
    r"""--(?:require|experimental-loader)[ =](?:"[^"]*\.pnp\.(?:cjs|loader\.mjs)\""""
    r"""|\S*\.pnp\.(?:cjs|loader\.mjs)(?!\S))"""
)


def _hub_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Leaves out Node's other options (a debugger's port, preloaded modules): not for the hub."""
    environment = {key: value for key, value in own.items() if key != "NODE_OPTIONS"}
    kept = _PLUG_AND_PLAY.findall(own.get("NODE_OPTIONS", ""))
    return {**environment, "NODE_OPTIONS": " ".join(kept)} if kept else environment


def _spawn(command: list[str], says: int, log_path: str) -> None:
    """Starts it as nobody's descendant. It is not ended: others may have joined it."""
    # Supervisors end a program with all its descendants. The shell ends at once. An image without
    # a shell has no such supervisor, as a rule, and there the hub stays a child of this process.
    if os.path.exists(_SHELL):
        command = [_SHELL, "-c", '"$0" "$@" &', *command]
    environment = _hub_environment(os.environ)
    log = open_own_file(log_path, os.O_RDWR | os.O_APPEND)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=says,
            stderr=log,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    except OSError as cause:
        raise system_error(f"start a hub with {command[0]}", cause) from cause
    finally:
        os.close(log)
    threading.Thread(target=child.wait, name="cuda-ipc hub", daemon=True).start()


def _read(fd: int) -> tuple[bytes, bool]:
    """What the hub has said meanwhile, and whether it has ended."""
    text = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(fd, 65536):
            text += chunk
        return text, True
    return text, False


def _log_size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _last_error(path: str, size_before: int) -> str:
    """The last line of the log that names an error; else its last line. "" if nothing was added."""
    try:
        with open(path, "rb") as log:
            log.seek(max(size_before, _log_size(path) - _READ_MAX))
            text = log.read(_READ_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\S*Error|Error)\b.*: ", line)]
    return [*lines, *named][-1][:_LENGTH_MAX] if lines else ""


def _check(said: bytes, socket_path: str, log_path: str, size_before: int) -> None:
    """Raises why the hub has ended, unless another one was quicker."""
    lines = said.decode("utf-8", "replace").splitlines()
    words = _last_error(log_path, size_before)
    how = f"it ended at once: {words}" if words else "it ended at once"
    code, message = "HUB_UNAVAILABLE", f"{how}; see {log_path}"
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("ready") is False:
            code, message = str(value.get("code")), str(value.get("message"))
    if code == "HUB_RUNNING":
        return
    refused = error(code, f"Cannot start a hub at {socket_path}: {message}")
    if refused.code == "SYSTEM_ERROR":
        refused = CudaIpcError("HUB_UNAVAILABLE", refused.message)
    raise refused
