"""Runs every example in Python of the documents, each in a process of its own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import LIMIT, ROOT, SOURCE

import cuda_ipc

numpy = pytest.importorskip("numpy")


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in ("docs/python.md", "docs/guide.md", "README.md", "python/README.md"):
        text = pathlib.Path(ROOT, page).read_text()
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            found.append((f"{page}:{line}", match[1]))
    return found


def run(source: str, socket: str) -> list[str]:
    environment = {**os.environ, "CUDA_IPC_SOCKET": socket, "PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block[0])
def test_an_example_prints_what_it_promises(block, socket):
    with cuda_ipc.connect(socket) as hub:
        if block[0].startswith("README.md"):  # as its producer in TypeScript
            hub.put("frame", numpy.full((1080, 1920, 3), 0.5, "float32"))
        said = run(block[1], socket)
    promised = re.findall(r"^ *print\(.*\)  # (.+)$", block[1], re.MULTILINE)
    for line in promised:
        assert line in said
    if block[1].count("camera") > 1:
        assert said == ["0 {'camera': 1} 56", "1 {'camera': 2} 10"]


def test_the_test_finds_examples_and_fails_for_one_that_throws(socket):
    assert len(blocks()) >= 8
    with pytest.raises(AssertionError, match="no such thing"):
        run("raise ValueError('no such thing')", socket)
