"""The table of frameworks for the GPU report: a hang or a crash loses one cell, not the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import HUB_MAIN, LIMIT, ROOT

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

PROGRAM = ROOT / "test/gpu/programs/python_matrix.py"

#: NumPy, but for three cells. Children run this file, too.
SPOILED = """
import os, sys, threading
sys.path.insert(0, os.path.dirname({program!r}))
import python_matrix as matrix

class Spoiled(matrix.Numpy):
    def make(self, dtype):
        if dtype == "uint8":
            threading.Event().wait()
        if dtype == "int16":
            os._exit(7)
        if dtype == "float64":
            raise RuntimeError("spoiled")
        return super().make(dtype)

matrix.FRAMEWORKS["numpy"] = Spoiled
matrix.PROGRAM = __file__
matrix.CELL_S = 3
sys.exit(matrix.main())
"""


def run(program, *arguments):
    command = [sys.executable, str(program), "--device", "host", "--hub", str(HUB_MAIN)]
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )
    return done.returncode, json.loads(done.stdout)


def test_each_dtype_has_a_word_in_each_direction():
    code, table = run(PROGRAM, "--only", "numpy", "cupy")
    assert (code, table["passed"], table["failures"]) == (0, True, [])
    numpy = table["frameworks"]["numpy"]
    assert len(numpy["cells"]) == 17 and numpy["versions"]["numpy"]
    words = {"view": "view", "read": "view", "share": "copy", "born": "none"}
    assert all(cells == words for cells in numpy["cells"].values())
    assert "cupy" in table["frameworks"]["cupy"]["missing"].lower()
    assert table["cells"] == {"view": 34, "copy": 17, "none": 17}


def test_a_cell_that_hangs_ends_or_fails_is_named_and_the_others_are_kept(tmp_path):
    program = tmp_path / "spoiled.py"
    program.write_text(SPOILED.format(program=str(PROGRAM)))
    code, table = run(program, "--only", "numpy")
    assert (code, table["passed"]) == (1, False)
    failures = [(one["dtype"], one["direction"], one["is"]) for one in table["failures"]]
    assert sorted(failures) == [
        ("float64", "share", "failed"),
        ("int16", "share", "failed"),
        ("uint8", "share", "hang"),
    ]
    why = {one["dtype"]: one.get("why") for one in table["failures"]}
    assert "ended with 7" in why["int16"] and "spoiled" in why["float64"]
    cells = table["frameworks"]["numpy"]["cells"]
    assert len(cells) == 17 and cells["complex128"]["share"] == "copy"


def test_what_there_was_no_time_for_is_named(tmp_path):
    program = tmp_path / "spoiled.py"
    program.write_text(SPOILED.format(program=str(PROGRAM)).replace("CELL_S = 3", "CELL_S = 60"))
    code, table = run(program, "--only", "numpy", "--limit", "6")
    assert code == 1 and table["cells"].get("not run", 0) > 40
    assert table["frameworks"]["numpy"]["cells"]["bool"]["share"] in ("copy", "not run")
