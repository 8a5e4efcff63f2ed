"""How much host memory this process can still get.

A memory file gets its pages when they are first touched. If there are none left, the OOM killer
or SIGBUS ends the process. So creation asks first. It is an estimate: other processes take memory,
too.
"""

from __future__ import annotations

import os
import posixpath
import re

from .errors import error

_GROUPS = "/sys/fs/cgroup"
#: The two versions of control groups: folder, limit and use.
_V1 = (f"{_GROUPS}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
_V2 = (_GROUPS, "memory.max", "memory.current")
#: Smaller sizes are not checked: the check is less exact than this.
_CHECKED_BYTES_MIN = 16 * 1024 * 1024


def refuse_over_capacity(length: int) -> None:
    """Raises OUT_OF_MEMORY if the machine, or a control group, has less than that."""
    if length < _CHECKED_BYTES_MIN:
        return
    available = available_bytes()
    if available is not None and length > available:
        found = f"{available} bytes are available"
        raise error("OUT_OF_MEMORY", f"Cannot create {length} bytes of host memory: {found}")


def available_bytes() -> int | None:
    """None if nothing says it."""
    found = [_on_machine(), *_in_groups()]
    return min((one for one in found if one is not None), default=None)


def _on_machine() -> int | None:
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", _text("/proc/meminfo"), re.M)
    return None if match is None else int(match[1]) * 1024


def _in_groups() -> list[int | None]:
    found: list[int | None] = []
    for line in _text("/proc/self/cgroup").split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path and controllers == "":
            found += _in_tree(_V2, path)
        elif path and "memory" in controllers.split(","):
            found += _in_tree(_V1, path)
    return found


def _in_tree(version: tuple[str, str, str], path: str) -> list[int | None]:
    """Of the group and its parents.

    Up to the root, because inside a container the path may be the host's, and only the root exists.
    """
    root, limit, used = version
    group = posixpath.normpath("/" + path.lstrip("/"))
    found = []
    while True:
        found.append(_in_group(root + group.rstrip("/"), limit, used))
        if group == "/":
            return found
        group = posixpath.dirname(group)


def _in_group(folder: str, limit: str, used: str) -> int | None:
    try:
        limit_bytes = int(_text(os.path.join(folder, limit)))
        used_bytes = int(_text(os.path.join(folder, used)))
    except ValueError:
        return None  # there is no such file, or it says "max"
    # Pages of files on disk: the kernel drops them before it refuses memory.
    stat = _text(os.path.join(folder, "memory.stat"))
    cached = sum(map(int, re.findall(r"^(?:in)?active_file (\d+)$", stat, re.M)))
    return max(0, limit_bytes - used_bytes + cached)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
