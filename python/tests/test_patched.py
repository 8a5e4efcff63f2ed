"""A process that gevent or eventlet has patched is refused in one sentence, at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import LIMIT, SOURCE

PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}

CALLS = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
{imports}
{patch}
import cuda_ipc
for call in (
    lambda: cuda_ipc.connect(sys.argv[2], timeout=None),
    lambda: cuda_ipc.Group.join(path=sys.argv[2] + ".group", rank=1, size=2, timeout=None),
):
    try:
        call()
    except cuda_ipc.CudaIpcError as refused:
        print(refused.code, refused.message)
"""


@pytest.mark.parametrize("first", ["", "import cuda_ipc, socket, threading"])
@pytest.mark.parametrize("package", PATCHES)
def test_a_patched_process_is_refused_with_a_code_and_the_name_of_who_did_it(
    socket, package, first
):
    pytest.importorskip(package)
    program = CALLS.format(patch=PATCHES[package], imports=first)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-B", "-c", program, SOURCE, socket],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line, attempt in zip(lines, ("connect to a hub", "join a group"), strict=True):
        assert line.startswith(f"UNSUPPORTED Cannot {attempt}: {package} has patched Python's")


def test_a_process_that_has_gevent_and_is_not_patched_connects(socket):
    pytest.importorskip("gevent")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import gevent.monkey, cuda_ipc\n"
        "gevent.monkey.patch_all(socket=False, select=False, thread=False)\n"
        "with cuda_ipc.connect(sys.argv[2]) as hub: print(len(hub.list(prefix='patched')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, SOURCE, socket],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.stdout == "0\n", done.stderr
