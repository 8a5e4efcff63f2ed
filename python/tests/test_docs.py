"""Runs every example in Python of the documents, each in a process of its own."""

from __future__ import annotations

import importlib.util
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


def skip_without_frameworks(source: str) -> None:
    for name in ("torch", "jax"):
        if re.search(rf"^import {name}", source, re.MULTILINE):
            if os.environ.get(f"REQUIRE_{name.upper()}") != "1":
                pytest.importorskip(name)
            assert importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block[0])
def test_an_example_prints_what_it_promises(block, socket):
    skip_without_frameworks(block[1])
    with cuda_ipc.connect(socket) as hub:
        if block[0].startswith("README.md"):  # as its producer in TypeScript
            hub.put("frame", numpy.full((1080, 1920, 3), 0.5, "float32"))
        said = run(block[1], socket)
    promised = re.findall(r"^ *print\(.*\)  # (.+)$", block[1], re.MULTILINE)
    for line in promised:
        assert line in said
    if "DataLoader" in block[1]:
        assert [round(float(x), 3) for x in said[0].strip("[]").split(",")] == [0, 0.2, 1]
    elif 'load_file("model")' in block[1]:
        assert said[0] == "{'weight': (2, 3), 'bias': (2,)} {'format': 'pt'}"
        with cuda_ipc.connect(socket) as hub:
            hub.remove("model")
    elif block[1].count("camera") > 1:
        assert said == ["0 {'camera': 1} 56", "1 {'camera': 2} 10"]


def test_the_test_finds_examples_and_fails_for_one_that_throws(socket):
    assert len(blocks()) >= 8
    with pytest.raises(AssertionError, match="no such thing"):
        run("raise ValueError('no such thing')", socket)
