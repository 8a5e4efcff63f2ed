"""What `import cuda_ipc` loads: what costs milliseconds is loaded where it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

from conftest import SOURCE

#: Modules of the standard library, with those that they import themselves.
ALLOWED = {
    "__future__", "_bisect", "_collections", "_collections_abc", "_functools", "_heapq", "_json", "_operator",
    "_posixsubprocess", "_random", "_socket", "_sre", "_stat", "_struct", "_typing", "_weakref",
    "_weakrefset", "array", "atexit", "bisect", "collections", "collections.abc", "contextlib",
    "copyreg", "enum", "errno", "fcntl", "functools", "genericpath", "heapq", "importlib", "importlib._bootstrap",
    "importlib._bootstrap_external", "itertools", "json",
    "json.decoder", "json.encoder", "json.scanner", "keyword", "math", "mmap", "operator", "os",
    "os.path", "posixpath", "re", "re._casefix", "re._compiler", "re._constants", "re._parser",
    "reprlib", "select", "selectors", "signal", "socket", "sre_compile", "sre_constants",
    "sre_parse", "stat", "struct", "threading", "types", "typing", "typing.io", "typing.re",
    "warnings", "weakref",
}  # fmt: skip
OWN_MAX = 63


def loaded(source: str) -> set[str]:
    program = (
        f"import sys; sys.path.insert(0, {SOURCE!r}); sys.dont_write_bytecode = True\n"
        "before = set(sys.modules)\n"
        f"{source}\n"
        "after = set(sys.modules) - before\n"
        "import json; print(json.dumps(sorted(after)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(ran.stdout))


def test_the_import_loads_nothing_else():
    assert loaded("import cuda_ipc") - {"cuda_ipc", "cuda_ipc._version"} == set()


def test_what_a_client_needs_loads_few_modules():
    found = loaded("import cuda_ipc; cuda_ipc.connect, cuda_ipc.CudaIpcError")
    own = {name for name in found if name.split(".")[0] == "cuda_ipc"}
    assert found - own - ALLOWED == set()
    assert len(own) <= OWN_MAX
    parts = {name.split(".")[1] for name in own if "." in name}
    assert not parts & {"_service", "_group", "groups", "_cuda", "_dlpack", "_starting", "_node"}


def test_what_is_loaded_later_is_there():
    assert "cuda_ipc.groups" in loaded("import cuda_ipc; cuda_ipc.Group, cuda_ipc.Service")
    assert loaded("import cuda_ipc; [getattr(cuda_ipc, name) for name in cuda_ipc.__all__]")
    assert loaded("from cuda_ipc import *; connect, Hub, dtypes")
    loaded(
        "import cuda_ipc; assert not hasattr(cuda_ipc, 'nothing'); assert 'Hub' in dir(cuda_ipc)"
    )
