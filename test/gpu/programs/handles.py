"""Arrays by 64-byte handles, to and from PyTorch, CuPy, Numba and our package, and by pools of cuda.core.

handles.py PACKAGE share                      shares float32 elements, waits for a line, prints the first three
handles.py PACKAGE open HANDLE OFFSET COUNT   opens float32 elements, prints them, doubles each in place
handles.py torch event HANDLE                 waits for an event, which is not done before it gets a line
handles.py cuda.core share SOCKET             sends its pool's descriptor and a buffer's 64 bytes over the socket
handles.py cuda.core open SOCKET              receives both, and opens the buffer
handles.py pool open SOCKET                   the same with our package

Every line of output is JSON. Handles are in hexadecimal. Sharing begins at element 100 of i + 0.5. PyTorch
sends its own 66 bytes. Our package is found in the folder of PYTHONPATH.
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
        return shared[1], shared[3] + 4 * self.part.storage_offset()

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


class Own:
    """Our package makes and opens handles of memory that PyTorch allocates."""

    def __init__(self):
        import torch

        from cuda_ipc import interop

        self.torch, self.interop = torch, interop

    def share(self):
        whole = self.torch.arange(COUNT, dtype=self.torch.float32, device="cuda") + 0.5
        self.part = whole[BEFORE:]
        handle = self.interop.handle_of(self.part)
        assert (handle.dtype, handle.shape) == ("float32", (COUNT - BEFORE,))
        return handle.handle, handle.byte_offset

    def first(self):
        self.torch.cuda.synchronize()
        return self.part[:3].tolist()

    def open(self, handle, offset, count):
        array = self.interop.open_handle(handle, "float32", count, byte_offset=offset)
        tensor = self.torch.from_dlpack(array)
        del array
        found = {"first": tensor[:3].tolist(), "sum": tensor.double().sum().item()}
        tensor.mul_(2)
        self.torch.cuda.synchronize()
        return found


def bytes_of_buffer(cupy, address, size):
    memory = cupy.cuda.UnownedMemory(address, size, None)
    return cupy.ndarray((size,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))


POOL_BYTES = 1 << 20


def core_device():
    try:
        import cuda.core as core

        core.DeviceMemoryResourceOptions
    except (ImportError, AttributeError):
        import cuda.core.experimental as core
    device = core.Device(0)
    device.set_current()
    return core, device


def core_share(path):
    """cuda.core shares a buffer, and sees what the other side writes to it."""
    import socket

    import cupy

    core, device = core_device()
    options = core.DeviceMemoryResourceOptions(max_size=2 * POOL_BYTES, ipc_enabled=True)
    resource = core.DeviceMemoryResource(device, options=options)
    stream = device.create_stream()
    buffer = resource.allocate(POOL_BYTES, stream=stream)
    stream.sync()
    values = bytes_of_buffer(cupy, int(buffer.handle), POOL_BYTES)
    values[:] = cupy.arange(POOL_BYTES, dtype=cupy.uint32).astype(cupy.uint8)
    cupy.cuda.Device().synchronize()
    pool = getattr(resource, "allocation_handle", None) or resource.get_allocation_handle()
    descriptor = getattr(buffer, "ipc_descriptor", None) or buffer.get_ipc_descriptor()
    # What it pickles: the driver's 64 bytes, and the size. No version has both as attributes.
    data, size = descriptor.__reduce__()[1]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(path)
        socket.send_fds(link, [json.dumps({"data": bytes(data).hex(), "size": size}).encode()], [int(pool)])
        say({"sent": POOL_BYTES})
        sys.stdin.readline()
        cupy.cuda.Device().synchronize()
        say(values[:3].get().tolist())


def received(path):
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(path)
        text, (fd,), *_ = socket.recv_fds(link, 65536, 1)
    found = json.loads(text)
    return fd, bytes.fromhex(found["data"]), found["size"]


def core_open(path):
    """cuda.core opens a buffer of ours."""
    import cupy

    core, device = core_device()
    fd, data, size = received(path)
    resource = core.DeviceMemoryResource.from_allocation_handle(device, fd)
    stream = device.create_stream()
    name = core_descriptor_class()._init(data, size)
    try:
        buffer = core.Buffer.from_ipc_descriptor(resource, name, stream=stream)
    except TypeError:
        buffer = core.Buffer.from_ipc_descriptor(resource, name)
    stream.sync()
    values = bytes_of_buffer(cupy, int(buffer.handle), size)
    say(values[:3].get().tolist())
    values[:3] = cupy.asarray([9, 8, 7], dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    say({"done": True})


def core_descriptor_class():
    """cuda.core's class of a buffer's descriptor. It is not public, and has had several places."""
    import importlib

    for place in ("_memory._ipc", "_memory", "experimental._memory._ipc", "experimental._memory"):
        try:
            return importlib.import_module(f"cuda.core.{place}").IPCBufferDescriptor
        except (ImportError, AttributeError):
            continue
    raise ImportError("this version of cuda.core has its IPCBufferDescriptor elsewhere")


def pool_open(path):
    """Our package opens a buffer in a pool of another process."""
    import os

    import cupy

    from cuda_ipc import interop

    fd, data, size = received(path)
    array = interop.open_pool(fd).open(data, "uint8", byte_length=size)
    os.close(fd)
    values = cupy.from_dlpack(array)
    del array
    say(values[:3].get().tolist())
    values[:3] = cupy.asarray([9, 8, 7], dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    say({"done": True})


def main():
    pools = {("cuda.core", "share"): core_share, ("cuda.core", "open"): core_open, ("pool", "open"): pool_open}
    by_pool = pools.get((sys.argv[1], sys.argv[2]))
    if by_pool is not None:
        by_pool(sys.argv[3])
        return
    package = {"torch": Torch, "cupy": CuPy, "numba": Numba, "cuda_ipc": Own}[sys.argv[1]]()
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
