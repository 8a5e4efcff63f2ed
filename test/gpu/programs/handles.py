"""Arrays by 64-byte handles, to and from PyTorch, CuPy and Numba: for test/gpu/other-programs.test.ts.

handles.py PACKAGE share                      shares float32 elements, waits for a line, prints the first three
handles.py PACKAGE open HANDLE OFFSET COUNT   opens float32 elements, prints them, doubles each in place
handles.py torch event HANDLE                 waits for an event, which is not done before it gets a line

Every line of output is JSON. Handles are in hexadecimal. Sharing begins at element 100 of i + 0.5.
"""

import ctypes
import json
import sys

COUNT = 1_000_000
BEFORE = 100


def say(value):
    print(json.dumps(value), flush=True)


def offset_of(pointer):
    """Bytes from the start of the allocation, whose handle the driver gives for every address in it."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    cuda = ctypes.CDLL("libcuda.so.1")
    status = cuda.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(pointer))
    if status != 0:
        raise OSError(f"cuMemGetAddressRange failed with CUDA error {status}")
    return pointer - base.value


class Torch:
    def __init__(self):
        import torch

        self.torch = torch

    def share(self):
        whole = self.torch.arange(COUNT, dtype=self.torch.float32, device="cuda") + 0.5
        self.part = whole[BEFORE:]
        shared = self.part.untyped_storage()._share_cuda_()
        self.torch.cuda.synchronize()
        # Newer versions put two bytes of their own before the handle.
        return shared[1][-64:], shared[3] + 4 * self.part.storage_offset()

    def first(self):
        self.torch.cuda.synchronize()
        return self.part[:3].tolist()

    def open(self, handle, offset, count):
        torch = self.torch
        prefix = torch.zeros(1, device="cuda").untyped_storage()._share_cuda_()[1][:-64]
        # torch.multiprocessing opens what it received so. There is no count of references and no event here.
        storage = torch.UntypedStorage._new_shared_cuda(0, prefix + handle, 4 * count, offset, b"", 0, b"", False)
        tensor = torch.empty(0, dtype=torch.float32, device="cuda").set_(storage, 0, (count,), (1,))
        found = {"first": tensor[:3].tolist(), "sum": tensor.double().sum().item()}
        tensor.mul_(2)
        torch.cuda.synchronize()
        return found

    def event(self, handle):
        event = self.torch.cuda.Event.from_ipc_handle(self.torch.device("cuda", 0), handle)
        say({"done": event.query()})
        sys.stdin.readline()
        event.synchronize()
        say({"done": event.query()})


class CuPy:
    def __init__(self):
        import cupy

        self.cupy = cupy

    def share(self):
        whole = self.cupy.arange(COUNT, dtype=self.cupy.float32) + self.cupy.float32(0.5)
        self.part = whole[BEFORE:]
        pointer = self.part.data.ptr
        handle = self.cupy.cuda.runtime.ipcGetMemHandle(pointer)
        self.cupy.cuda.Device().synchronize()
        return handle, offset_of(pointer)

    def first(self):
        return self.part[:3].get().tolist()

    def open(self, handle, offset, count):
        cupy = self.cupy
        pointer = cupy.cuda.runtime.ipcOpenMemHandle(handle)
        memory = cupy.cuda.UnownedMemory(pointer, offset + 4 * count, None)
        array = cupy.ndarray((count,), cupy.float32, cupy.cuda.MemoryPointer(memory, offset))
        found = {"first": array[:3].get().tolist(), "sum": float(array.sum(dtype=cupy.float64))}
        array *= 2
        cupy.cuda.Device().synchronize()
        cupy.cuda.runtime.ipcCloseMemHandle(pointer)
        return found


class Numba:
    def __init__(self):
        import numpy
        from numba import cuda

        self.numpy, self.cuda = numpy, cuda

    def share(self):
        whole = self.cuda.to_device(self.numpy.arange(COUNT, dtype=self.numpy.float32) + self.numpy.float32(0.5))
        self.part = whole[BEFORE:]
        self.handle = self.part.get_ipc_handle()._ipc_handle
        # A struct of cuda-bindings, or an array of ctypes with signed bytes.
        reserved = getattr(self.handle.handle, "reserved", self.handle.handle)
        return bytes(byte & 255 for byte in reserved), int(self.handle.offset)

    def first(self):
        return self.part[:3].copy_to_host().tolist()

    def open(self, handle, offset, count):
        with self.cuda.open_ipc_array(handle, shape=(count,), dtype=self.numpy.float32, offset=offset) as array:
            values = array.copy_to_host()
            array.copy_to_device(values * self.numpy.float32(2))
            self.cuda.synchronize()
        return {"first": values[:3].tolist(), "sum": float(values.sum(dtype=self.numpy.float64))}


def main():
    package = {"torch": Torch, "cupy": CuPy, "numba": Numba}[sys.argv[1]]()
    if sys.argv[2] == "share":
        handle, offset = package.share()
        say({"handle": handle.hex(), "byteOffset": offset})
        sys.stdin.readline()
        say(package.first())
    elif sys.argv[2] == "event":
        package.event(bytes.fromhex(sys.argv[3]))
    else:
        say(package.open(bytes.fromhex(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))


main()
