"""The layout of the package: small modules, whose first lines say what they are for."""

from __future__ import annotations

import ast
import pathlib

import pytest
from conftest import SOURCE

LINES_MAX = 320
MODULES = sorted(pathlib.Path(SOURCE, "cuda_ipc").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_short_and_says_what_it_is_for(path):
    text = path.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    assert path.name == "_version.py" or ast.get_docstring(ast.parse(text))
