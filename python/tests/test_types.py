"""What a type checker says of a program: it refuses a misspelt word where a call has a choice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing

import pytest
from conftest import SOURCE

import cuda_ipc
from cuda_ipc import _choices, _protocol

PROGRAM = """
import cuda_ipc

hub = cuda_ipc.connect("/hub.sock", device="cuda:1")
array = hub.create("a", "float32", (2, 3))
hub.create("a", array.dtype, array.shape, replace="any", device=1)
hub.create("a", "float23", 1)  # wrong
hub.create("a", "int8", 1, replace="all")  # wrong
hub.create("a", "int8", 1, device=1.5)  # wrong
hub.put("a", b"abc", dtype="uint8")
hub.put("a", b"abc", dtype="unit8")  # wrong
hub.create_bundle("b", {"w": ("float32", 2), "i": ("int8", (1, 2))})
hub.create_bundle("b", {"w": ("float", 2)})  # wrong
hub.open("a", access="copy")
hub.open("a", access="write")  # wrong
hub.open_bundle("a", access="readwrite")  # wrong
hub.create_channel("c", "int8", 1, when_full="drop-oldest", when_writer_gone="wait")
hub.create_channel("c", "int8", 1, when_full="drop")  # wrong
hub.create_channel("c", "int8", 1, when_writer_gone="stay")  # wrong
hub.create_timeline("t", when_owner_gone="wait")
hub.create_timeline("t", when_owner_gone="stay")  # wrong
hub.open_channel("c", start="latest")
hub.open_channel("c", start="newest")  # wrong
hub.serve("s", lambda request, reply: None, request=("int8", 1), reply=("int8", 1))
hub.serve("s", lambda request, reply: None, request=("int9", 1))  # wrong
hub.connect_service("s", policy="fail", machine="any")
hub.connect_service("s", policy="retries")  # wrong
hub.connect_service("s", machine="all")  # wrong
hub.open("a", timeoutMs=5)  # wrong
hub.create("a", "int8", 1, sharing={"with": "group", "access": "read-write", "machines": True})
hub.create("a", "int8", 1, sharing={"wiht": "group"})  # wrong
hub.create("a", "int8", 1, sharing={"with": "everybody"})  # wrong
hub.put("a", b"abc", sharing={"with": "all", "access": "write"})  # wrong
hub.share("a", b"abc", sharing={"with": "all", "machines": "yes"})  # wrong
hub.create_bundle("b", {"w": ("int8", 2)}, sharing={"group": True})  # wrong
hub.create_channel("c", "int8", 1, sharing={"access": "copy"})  # wrong
hub.create_timeline("t", sharing={"with": "group"})
hub.create_timeline("t", sharing={"with": "group", "access": "read-write"})  # wrong
hub.serve("s", lambda request, reply: None, request=("int8", 1), sharing={"with": "al"})  # wrong
hub.connect_service("s", sharing={"users": [1]})  # wrong
hub.serve("s", lambda request, reply: {"meta": 1}, request=("int8", 1))
hub.serve("s", lambda request, reply: {"mta": 1}, request=("int8", 1))  # wrong
hub.inspect("a")[1][0].access == "write"  # wrong
hub.inspect("a")[1][0].role == "creator"  # wrong
cuda_ipc.torch.empty(3, device=1.5)  # wrong
everybody: cuda_ipc.Sharing = {"with": "all"}
hub.create("a", "int8", 1, sharing=everybody)
cuda_ipc.torch.load_file("m", access="write")  # wrong
cuda_ipc.numpy.load_file("m", access="write")  # wrong
cuda_ipc.interop.open_handle(b"", "int9", 1)  # wrong
hub.inspect("a")[0].kind == "arry"  # wrong
hub.observe_channel("c").statistics().writer == "closing"  # wrong
"""

#: The numbers of these lines.
WRONG = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}

DTYPES_OF_NUMPY = """
import numpy, cuda_ipc
hub = cuda_ipc.connect("/hub.sock")
hub.create("a", numpy.float32, 1)
hub.create("a", numpy.dtype("float32"), numpy.zeros(3).shape)
"""


def test_a_type_checker_refuses_a_wrong_word(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("MYPYPATH", SOURCE)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    options = ["--strict", "--config-file=", cache, "--follow-imports=silent"]
    said, errors, _ = api.run([*options, "--ignore-missing-imports", str(program)])
    assert errors == ""
    refused = {int(line) for line in re.findall(r"program\.py:(\d+): error", said)}
    assert refused == WRONG, said


def test_types_have_the_words_that_calls_take():
    assert typing.get_args(_choices.DTypeName) == cuda_ipc.dtypes == tuple(_protocol.DTYPE_SIZES)
    assert typing.get_args(_choices.WhenFull) == _protocol.WHEN_FULL
    assert typing.get_args(_choices.WhenWriterGone) == _protocol.WHEN_WRITER_GONE


def test_a_dtype_of_numpy_is_one(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    pytest.importorskip("numpy")
    program = tmp_path / "program.py"
    program.write_text(DTYPES_OF_NUMPY)
    monkeypatch.setenv("MYPYPATH", SOURCE)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    said, errors, status = api.run(
        ["--strict", "--config-file=", cache, "--python-executable", sys.executable, str(program)]
    )
    assert (errors, status) == ("", 0), said


def test_pyright_finds_the_same(tmp_path):
    pytest.importorskip("pyright")
    pytest.importorskip("numpy")
    # Its first run fetches the program itself. It would also ask for a newer one at each run.
    env = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    run = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    try:
        subprocess.run([*run, "--version"], env=env, check=True, capture_output=True)
    except subprocess.CalledProcessError as missing:
        pytest.skip(f"pyright cannot be fetched: {missing.stderr.decode()[-200:]}")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "dtypes.py").write_text(DTYPES_OF_NUMPY)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [SOURCE]}))
    found = subprocess.run(
        [*run, "--outputjson"], env=env, cwd=tmp_path, check=False, capture_output=True
    )
    said = json.loads(found.stdout)["generalDiagnostics"]
    refused = {(os.path.basename(one["file"]), one["range"]["start"]["line"] + 1) for one in said}
    assert refused == {("program.py", line) for line in WRONG}, said
