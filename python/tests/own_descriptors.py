"""The descriptors that a test has left open, without those of the CUDA driver.

The driver opens and closes its own at any time. So once it is in use, descriptors of its kinds
count only if the package has made them: `watch` notes each one that Python makes or receives.
"""

from __future__ import annotations

import array
import functools
import gc
import os
import socket
import time
from collections.abc import Callable
from typing import Any

#: Descriptors that Python has made or received, and has not closed.
_noted: set[int] = set()

#: What the driver opens for itself. Descriptors of GPU memory look like its devices.
_OF_DRIVER = ("/dev/nvidia", "/dev/shm", "/memfd:", "anon_inode:[eventfd]", "pipe:")
_OF_PACKAGE = "/memfd:cuda-ipc"


def watch() -> None:
    """Notes descriptors from here on. Sockets and files need none: the driver has none to itself
    after it has been warmed up."""
    for name in ("dup", "eventfd", "memfd_create", "pipe2"):
        _wrap(os, name, lambda result, _: _noted.update(_numbers(result)))
    _wrap(os, "close", lambda _, arguments: _noted.discard(arguments[0]))
    # The package makes each descriptor that the driver exports non-inheritable.
    _wrap(os, "set_inheritable", lambda _, arguments: _noted.add(arguments[0]))
    _wrap(socket.socket, "recvmsg", lambda result, _: _noted.update(_received(result[1])))


def open_fds() -> dict[int, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[int(fd)] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            pass  # that of the listing itself
    return found


def left_over(
    before: dict[int, str], now: dict[int, str], has_driver: bool | None = None
) -> dict[int, str]:
    """What is open now and was not before. `has_driver` is whether the driver is in use."""
    if has_driver is None:
        has_driver = any(what.startswith("/dev/nvidia") for what in now.values())
    return {
        fd: what
        for fd, what in now.items()
        if before.get(fd) != what and not (has_driver and _is_of_driver(fd, what))
    }


def assert_as_before(before: dict[int, str], limit: float, has_driver: bool | None = None) -> None:
    """Waits until nothing is left over, and fails after `limit` seconds."""
    # A thread that ends, or an import that a signal ended, may hold one a little longer.
    end = time.monotonic() + limit
    while True:
        left = left_over(before, open_fds(), has_driver)
        if left == {} or time.monotonic() > end:
            break
        gc.collect()  # it takes long once a framework is imported
        time.sleep(0.01)
    assert left == {}, "descriptors that the test has left open"


def warm_up() -> None:
    """Lets the driver, if there is one, open what stays open until the process ends."""
    import cuda_ipc

    try:
        from gpu_streams import Gate, GpuStream

        gate, stream = Gate(), GpuStream()
    except cuda_ipc.CudaIpcError:
        return
    from cuda_ipc._cuda import CudaAllocation, context_at

    memory = CudaAllocation(context_at(0), 1 << 12)
    # The driver loads what fills and copies when it is first used, and not while a stream waits.
    stream.fill(memory.address, 1, 1 << 11)
    stream.copy(memory.address + (1 << 11), memory.address, 1 << 11)
    with gate:
        stream.wait(gate)
    gate.close()
    stream.close()


def _is_of_driver(fd: int, what: str) -> bool:
    return what.startswith(_OF_DRIVER) and not what.startswith(_OF_PACKAGE) and fd not in _noted


def _wrap(owner: Any, name: str, note: Callable[[Any, tuple[Any, ...]], object]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def noting(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        note(result, arguments[1:] if owner is not os else arguments)
        return result

    setattr(owner, name, noting)


def _numbers(result: Any) -> tuple[int, ...]:
    return result if isinstance(result, tuple) else (result,)


def _received(control: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
