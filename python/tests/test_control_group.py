"""A program in a control group with a limit of memory gets OUT_OF_MEMORY, and is not killed."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest

from cuda_ipc import _host_capacity

MIB = 1 << 20
LIMIT_BYTES = 384 * MIB


def places():
    """The folder of this process's group and the name of its limit, for version 1 or 2."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield pathlib.Path(_host_capacity._V1[0] + path), _host_capacity._V1[1]
        elif controllers == "":
            yield pathlib.Path(_host_capacity._V2[0] + path), _host_capacity._V2[1]


@pytest.fixture
def limited():
    """The file that takes processes into a group with this limit."""
    for folder, limit in places():
        group = folder / f"cuda-ipc-test-py-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                with contextlib.suppress(OSError):
                    (group / limit).write_text(str(LIMIT_BYTES))
                    yield group / "cgroup.procs"
                    return
        finally:
            group.rmdir()
    pytest.skip("no memory cgroup can be made here")


PROGRAM = """
import os
import pathlib
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
held = []
def code(call):
    try:
        held.append(call())
        return "OK"
    except cuda_ipc.CudaIpcError as refused:
        return refused.code
for line in sys.stdin:
    name, kind, mebibytes, preallocate = json.loads(line)
    size, options = mebibytes << 20, {"preallocate": preallocate}
    calls = {
        "array": lambda: hub.create(name, "uint8", size, **options),
        "bundle": lambda: hub.create_bundle(name, {"a": ("uint8", size)}, **options),
        "channel": lambda: hub.create_channel(name, "uint8", size, slots=1, **options),
    }
    say(code(calls[kind]))
hub.close()
"""


def test_it_creates_what_fits_and_gets_out_of_memory_for_more(hub, limited, python):
    peer = python(PROGRAM, limited)
    steps = [
        ("array", 1024, False, "OUT_OF_MEMORY"),
        ("array", 1024, True, "OUT_OF_MEMORY"),
        ("bundle", 1024, True, "OUT_OF_MEMORY"),
        ("channel", 1024, True, "OUT_OF_MEMORY"),
        ("array", 128, True, "OK"),
        # What it has preallocated counts.
        ("array", 320, True, "OUT_OF_MEMORY"),
        ("bundle", 320, False, "OUT_OF_MEMORY"),
        ("channel", 16, True, "OK"),
    ]
    for number, (kind, mebibytes, preallocate, wanted) in enumerate(steps):
        peer.tell([f"x{number}", kind, mebibytes, preallocate])
        assert peer.said() == wanted, (number, kind, mebibytes)
