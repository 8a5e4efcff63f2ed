"""Tries each framework of Python with each dtype in each direction, and prints a table as JSON.

python_matrix.py --node NODE --hub build/src/hub/main.js [--device cuda:0] [--limit SECONDS]

A cell is one of these words; all but the last three are good:
    view      the framework sees the very memory (or: others see the framework's very memory)
    copy      it works by one copy, as the documents say
    refused   the framework asks for a form that cannot say "read-only", and is refused
    none      the framework has no such dtype
    failed, hang, not run

Directions: "view" memory of ours is viewed and written in place; "read" the same of memory that was
opened for reading; "share" an ordinary array of the framework is shared by name (on a GPU a copy of
memory of cudaMalloc fails the cell); "born" the same of an array that was born shareable. Each
framework runs in a process of its own. If a cell hangs, that process is killed, and another one
goes on with the next cell.
"""

import argparse
import concurrent.futures
import importlib
import importlib.metadata
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python/src"))
sys.dont_write_bytecode = True

import cuda_ipc  # noqa: E402

#: What a child runs.
PROGRAM = __file__
START_S, CELL_S = 60, 15
RESTARTS_MAX = 2
GOOD = ("view", "copy", "refused", "none")

#: The packages whose versions are recorded.
PACKAGES = {
    "numpy": ["numpy", "ml_dtypes"],
    "torch": ["torch"],
    "cupy": ["cupy", "cupy-cuda12x", "cupy-cuda13x"],
    "numba": ["numba", "numba-cuda"],
    "jax": ["jax", "jaxlib"],
    "cuda.core": ["cuda-core", "cuda-bindings"],
}
SHAPE = (2, 3)


class NoSuchDType(Exception):
    """The framework does not have it."""


def raw(dtype):
    if dtype == "bool":
        return bytes([1, 0, 1, 1, 0, 0])
    # No pattern of it is a NaN of any dtype, because frameworks may change those.
    return bytes((n * 3 + 1) % 64 for n in range(6 * cuda_ipc._dtypes.DTYPES[dtype].itemsize))


def numpy_values(dtype):
    import numpy

    return numpy.frombuffer(raw(dtype), cuda_ipc._dtypes.numpy_dtype(cuda_ipc._dtypes.DTYPES[dtype])).reshape(SHAPE).copy()


class Framework:
    #: Whether its arrays on a GPU lie in memory of cudaMalloc, which is shared without a copy.
    cuda_malloc = False


class Numpy(Framework):
    module = "numpy"

    def __init__(self, device):
        import ml_dtypes
        import numpy

        self.numpy, self.ml_dtypes = numpy, ml_dtypes
        if device != "host":
            raise ImportError("NumPy sees host memory alone")

    def view(self, array):
        return array.numpy()

    def bytes_of(self, view):
        return view.tobytes()

    def address(self, view):
        return view.ctypes.data

    def fill(self, view):
        view.view(self.numpy.uint8).fill(1)

    def make(self, dtype):
        return numpy_values(dtype)


class Torch(Framework):
    module = "torch"
    cuda_malloc = True

    def __init__(self, device):
        import torch

        self.torch = torch
        self.device = "cpu" if device == "host" else device

    def dtype(self, name):
        found = getattr(self.torch, name, None)
        if found is None:
            raise NoSuchDType
        return found

    def view(self, array):
        self.dtype(array.dtype)
        return cuda_ipc.torch.view(array)

    def bytes_of(self, view):
        return view.view(self.torch.uint8).cpu().numpy().tobytes()

    def address(self, view):
        return view.data_ptr()

    def fill(self, view):
        view.view(self.torch.uint8).fill_(1)
        self.synchronize()

    def make(self, dtype):
        values = self.torch.frombuffer(bytearray(raw(dtype)), dtype=self.torch.uint8).to(self.device, copy=True)
        return values.view(self.dtype(dtype)).reshape(SHAPE)

    def born(self, dtype):
        if self.device == "cpu":
            made = cuda_ipc.torch.empty(*SHAPE, dtype=self.dtype(dtype))
        else:
            with cuda_ipc.torch.shareable():
                made = self.torch.empty(SHAPE, dtype=self.dtype(dtype), device=self.device)
        made.view(self.torch.uint8).copy_(self.make(dtype).view(self.torch.uint8))
        return made

    def synchronize(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()


class CuPy(Framework):
    module = "cupy"
    cuda_malloc = True

    def __init__(self, device):
        import cupy

        self.cupy = cupy
        if device == "host":
            raise ImportError("CuPy sees GPU memory alone")

    def check(self, dtype):
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise NoSuchDType

    def view(self, array):
        self.check(array.dtype)
        view = self.cupy.from_dlpack(array)
        assert self.cupy.asarray(array).data.ptr == view.data.ptr
        return view

    def bytes_of(self, view):
        return self.cupy.asnumpy(view).tobytes()

    def address(self, view):
        return view.data.ptr

    def fill(self, view):
        view.view(self.cupy.uint8).fill(1)
        self.cupy.cuda.Device().synchronize()

    def make(self, dtype):
        self.check(dtype)
        return self.cupy.asarray(numpy_values(dtype))


class Numba(Framework):
    module = "numba"
    cuda_malloc = True

    def __init__(self, device):
        from numba import cuda

        self.cuda = cuda
        if device == "host":
            raise ImportError("Numba sees GPU memory alone")

    def check(self, dtype):
        if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            raise NoSuchDType

    def view(self, array):
        self.check(array.dtype)
        return self.cuda.as_cuda_array(array)

    def bytes_of(self, view):
        return view.copy_to_host().tobytes()

    def address(self, view):
        return view.__cuda_array_interface__["data"][0]

    def fill(self, view):
        values = view.copy_to_host()
        values.view("uint8").fill(1)
        view.copy_to_device(values)
        self.cuda.synchronize()

    def make(self, dtype):
        self.check(dtype)
        return self.cuda.to_device(numpy_values(dtype))


class Jax(Framework):
    module = "jax"

    def __init__(self, device):
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax = jax
        self.device = jax.local_devices(backend="cpu" if device == "host" else "gpu")[0]

    def view(self, array):
        return self.jax.dlpack.from_dlpack(array)

    def bytes_of(self, view):
        import numpy

        return numpy.asarray(view).tobytes()

    def address(self, view):
        return view.unsafe_buffer_pointer()

    #: Its arrays are never written to.
    fill = None

    def make(self, dtype):
        return self.jax.device_put(numpy_values(dtype), self.device)


class CudaCore(Framework):
    module = "cuda.core"

    def __init__(self, device):
        try:
            from cuda.core.utils import StridedMemoryView
        except ImportError:
            from cuda.core.experimental.utils import StridedMemoryView
        self.make_view = StridedMemoryView
        if device == "host":
            raise ImportError("cuda.core sees GPU memory here")

    def view(self, array):
        found = self.make_view(array, stream_ptr=-1)
        assert tuple(found.shape) == SHAPE and found.device_id == int(array.device.partition(":")[2])
        assert found.readonly == array.readonly
        self.array = array
        return found

    def bytes_of(self, view):
        return None

    def address(self, view):
        return view.ptr

    #: It has no operations on elements, and no arrays of its own.
    fill = make = None


FRAMEWORKS = {one.module: one for one in (Numpy, Torch, CuPy, Numba, Jax, CudaCore)}


class Cells:
    """The directions, in one framework."""

    def __init__(self, hub, framework, device):
        self.hub, self.framework, self.device = hub, framework, device

    def name(self, dtype, direction):
        return f"matrix:{type(self.framework).__name__}:{dtype}:{direction}"

    def try_cell(self, dtype, direction):
        try:
            return {"is": getattr(self, direction)(dtype, self.name(dtype, direction))}
        except NoSuchDType:
            return {"is": "none"}
        except Exception as error:
            return {"is": "failed", "why": f"{type(error).__name__}: {error}"[:300]}

    def view(self, dtype, name):
        framework = self.framework
        with self.hub.create(name, dtype, SHAPE, device=self.device) as array:
            array.write(raw(dtype))
            view = framework.view(array)
            seen = framework.bytes_of(view)
            assert seen is None or seen == raw(dtype), f"other bytes: {seen.hex()}"
            assert framework.address(view) == array._memory.address, "another address"
            if framework.fill is not None:
                framework.fill(view)
                assert set(array.tobytes()) == {1}, "what it wrote is not there"
            array.close()
            if framework.fill is not None:
                assert set(framework.bytes_of(view)) == {1}, "the view did not keep the memory"
        return "view"

    def read(self, dtype, name):
        framework = self.framework
        with self.hub.create(name, dtype, SHAPE, device=self.device) as array:
            array.write(raw(dtype))
            array.publish()
            with self.hub.open(name) as same:
                try:
                    view = framework.view(same)
                except BufferError as refused:
                    assert "read-write" in str(refused)
                    return "refused"
                seen = framework.bytes_of(view)
                assert seen is None or seen == raw(dtype), f"other bytes: {seen.hex()}"
        return "view"

    def share(self, dtype, name):
        if self.framework.make is None:
            return "none"
        return self.shared(self.framework.make(dtype), dtype, name)

    def born(self, dtype, name):
        if not hasattr(self.framework, "born"):
            return "none"
        found = self.shared(self.framework.born(dtype), dtype, name)
        assert found == "view", "it was copied"
        return found

    def shared(self, made, dtype, name):
        with self.hub.share(name, made) as shared:
            assert shared.dtype == dtype and tuple(shared.shape) == SHAPE
            assert shared.copied == (shared.why is not None)
            if self.device != "host" and self.framework.cuda_malloc:
                assert not shared.copied, f"it was copied: {shared.why}"
            with self.hub.open(name) as same:
                assert same.tobytes() == raw(dtype), f"other bytes: {same.tobytes().hex()}"
            return "copy" if shared.copied else "view"


DIRECTIONS = ("view", "read", "share", "born")


def versions(name):
    found = {}
    for package in PACKAGES[name]:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def work(name, device, cells):
    """A child: prints a line for the framework, then one for each cell."""

    def say(value):
        print(json.dumps(value), flush=True)

    try:
        framework = FRAMEWORKS[name](device)
    except ImportError as missing:
        say({"missing": str(missing)[:300]})
        return
    except Exception as error:
        say({"missing": f"{type(error).__name__}: {error}"[:300]})
        return
    say({"versions": versions(name)})
    with cuda_ipc.connect(program=f"matrix {name}") as hub:
        table = Cells(hub, framework, device)
        for cell in cells:
            say(table.try_cell(*cell))
    # Some libraries end badly after this, and nothing is left to be done.
    sys.stdout.flush()
    os._exit(0)


class Child:
    def __init__(self, name, device, cells):
        arguments = [sys.executable, PROGRAM, "--work", name, "--device", device, "--cells", json.dumps(cells)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def said(self, limit):
        """A value; None if the child has ended; "hang" if it says nothing in time."""
        try:
            line = self.lines.get(timeout=max(limit, 0.01))
        except queue.Empty:
            return "hang"
        return None if line is None else json.loads(line)

    def end(self):
        self.process.kill()
        self.process.wait(10)


def tried(name, device, deadline):
    """The row of one framework."""
    cells = [(dtype, direction) for dtype in cuda_ipc.dtypes for direction in DIRECTIONS]
    row, failures, done, starts = {"cells": {}}, [], 0, 0
    while done < len(cells) and starts <= RESTARTS_MAX and time.monotonic() < deadline:
        starts += 1
        child = Child(name, device, cells[done:])
        try:
            first = child.said(min(START_S, deadline - time.monotonic()))
            if not isinstance(first, dict) or "missing" in first:
                row["missing"] = first["missing"] if isinstance(first, dict) else "it did not start in time"
                return row, failures
            row["versions"] = first["versions"]
            while done < len(cells):
                found = child.said(min(CELL_S, deadline - time.monotonic()))
                if found is None:
                    found = {"is": "failed", "why": f"the process ended with {child.process.wait(10)}"}
                elif found == "hang":
                    found = {"is": "hang"} if time.monotonic() < deadline else {"is": "not run"}
                dtype, direction = cells[done]
                row["cells"].setdefault(dtype, {})[direction] = found["is"]
                if found["is"] not in GOOD:
                    failures.append({"framework": name, "dtype": dtype, "direction": direction, **found})
                done += 1
                if found["is"] == "hang" or "the process ended" in found.get("why", ""):
                    break
        finally:
            child.end()
    for dtype, direction in cells[done:]:
        row["cells"].setdefault(dtype, {})[direction] = "not run"
        failures.append({"framework": name, "dtype": dtype, "direction": direction, "is": "not run"})
    return row, failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limit", type=float, default=110)
    parser.add_argument("--node", default="node")
    parser.add_argument("--hub", default=str(ROOT / "build/src/hub/main.js"))
    parser.add_argument("--only", nargs="*", default=list(FRAMEWORKS))
    parser.add_argument("--work")
    parser.add_argument("--cells", default="[]")
    given = parser.parse_args()
    if given.work is not None:
        work(given.work, given.device, json.loads(given.cells))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cuda-ipc-matrix-") as folder:
        socket = os.path.join(folder, "hub.sock")
        os.environ["CUDA_IPC_SOCKET"] = socket
        command = [given.node, given.hub, "--socket", socket, "--idle-ms", "60000"]
        hub = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            if json.loads(hub.stdout.readline() or "{}").get("ready") is not True:
                raise RuntimeError("the hub did not start")
            with concurrent.futures.ThreadPoolExecutor(len(given.only)) as pool:
                rows = pool.map(lambda name: tried(name, given.device, began + given.limit), given.only)
                found = dict(zip(given.only, rows, strict=True))
            with cuda_ipc.connect(reconnect=False) as session:
                session.stop(force=True)
        finally:
            hub.kill()
            hub.wait(10)
    failures = [failure for _, failed in found.values() for failure in failed]
    cells = [cell for row, _ in found.values() for by in row["cells"].values() for cell in by.values()]
    table = {
        "device": given.device,
        "python": sys.version.split()[0],
        "frameworks": {name: row for name, (row, _) in found.items()},
        "cells": {word: cells.count(word) for word in dict.fromkeys(cells)},
        "failures": failures,
        "passed": len(failures) == 0,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(table, indent=1))
    return 0 if table["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
