"""GPU memory, without a hub: on a GPU, or on the libcuda of the tests that is written in C."""

from __future__ import annotations

import ctypes
import os

import pytest
from a_gpu import a_tensor, why_not

import cuda_ipc
from cuda_ipc._dtypes import DTYPES
from cuda_ipc._layout import packed_layout
from cuda_ipc.arrays import Array, HandleState

pytestmark = pytest.mark.skipif(why_not() != "", reason=why_not())


def test_memory_is_created_exported_imported_and_freed():
    from cuda_ipc._cuda import CudaAllocation, context_at, full_uuid, import_memory

    context = context_at(0)
    mine = CudaAllocation(context, 1000)
    assert mine.length >= 1000 and mine.device == (2, 0)
    mine.write(0, memoryview(bytes(range(200)) * 5))
    (fd,) = mine.fds()
    try:
        theirs = import_memory(fd, mine.length, True, full_uuid(context))
        writable = import_memory(fd, mine.length, False, full_uuid(context))
        with pytest.raises(cuda_ipc.CudaIpcError):
            import_memory(fd, mine.length * 2, True, full_uuid(context))
    finally:
        os.close(fd)
    assert theirs.address != mine.address
    assert theirs.read(0, 1000) == bytes(range(200)) * 5
    writable.write(10, memoryview(b"abc"))
    assert mine.read(10, 3) == b"abc"
    with pytest.raises(cuda_ipc.CudaIpcError) as refused:
        context_at(1000)
    assert refused.value.code == "DEVICE_NOT_FOUND"


def test_frameworks_get_the_very_memory_with_every_dtype():
    from cuda_ipc._cuda import CudaAllocation, context_at

    memory = CudaAllocation(context_at(0), 1 << 16)
    for name in DTYPES:
        layout = packed_layout(name, (2, 3), 256)
        array = Array(HandleState("x"), memory, layout)
        assert array.__dlpack_device__() == (2, 0) and array.device == "cuda:0"
        array.write(bytes(layout.nbytes))
        assert array.tobytes() == bytes(layout.nbytes)
        for version in (None, (1, 0)):
            assert array.__dlpack__(stream=1, max_version=version) is not None
        with pytest.raises(BufferError):
            array.__dlpack__(stream=0)
        if layout.dtype.typestr is not None:
            interface = array.__cuda_array_interface__
            assert interface["data"] == (memory.address + 256, False)
            assert interface["strides"] == (3 * array.itemsize, array.itemsize)
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            array.numpy()
        assert refused.value.code == "UNSUPPORTED"
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        return
    for name in DTYPES:
        array = Array(HandleState("x"), memory, packed_layout(name, (2, 3), 256))
        view = torch.from_dlpack(array)
        assert str(view.dtype) == f"torch.{name}" and view.data_ptr() == memory.address + 256
        view.view(torch.uint8).fill_(7)
        assert array.tobytes() == b"\7" * array.nbytes


def test_a_hub_shares_gpu_memory_and_channels_in_it(request):
    hub = request.getfixturevalue("hub")
    with hub.create("gpu", "int32", 4, device="cuda:0") as array:
        array.write(bytes(range(16)))
        array.publish()
        with hub.open("gpu") as same:
            assert same.tobytes() == bytes(range(16)) and same.readonly
            with pytest.raises(cuda_ipc.CudaIpcError) as refused:
                same.write(bytes(16))
            assert refused.value.code == "READ_ONLY"
        with hub.open("gpu", access="copy") as copy:
            copy.write(bytes(16))
            assert copy.tobytes() == bytes(16) and array.tobytes() == bytes(range(16))
    with hub.create_bundle(
        "gpu:bundle", {"a": ("uint8", 3), "b": ("uint8", 300)}, device="cuda:0"
    ) as made:
        made["b"].write(bytes([5]) * 300)
        made.publish()
        with hub.open_bundle("gpu:bundle", access="copy") as copy:
            copy["b"].write(bytes([6]) * 300)
            assert copy["b"].tobytes() == bytes([6]) * 300
            assert made["b"].tobytes() == bytes([5]) * 300 and copy["a"].nbytes == 3
    with hub.create_channel("gpu:channel", "uint8", 512, slots=2, device="cuda:0") as writer:
        with hub.open_channel("gpu:channel") as reader:
            for n in range(10):
                with writer.loan() as slot:
                    slot.array.write(bytes([n]) * 512)
                    slot.commit(meta=n)
                with reader.next(10) as message:
                    assert message.array.tobytes() == bytes([n]) * 512 and message.json == n
                    with pytest.raises(cuda_ipc.CudaIpcError):
                        _ = message.data


def test_a_service_answers_in_gpu_memory(request):
    hub = request.getfixturevalue("hub")

    def increment(asked, reply):
        values = bytes(byte + 1 for byte in asked.array.tobytes())
        reply.loan().array.write(values)

    message = ("uint8", 512)
    with hub.serve("gpu:service", increment, request=message, reply=message, device="cuda:0"):
        with hub.connect_service("gpu:service") as client:
            for n in range(10):
                with client.request(lambda slot: slot.array.write(bytes([n]) * 512)) as reply:
                    assert reply.array.device == "cuda:0"
                    assert reply.array.tobytes() == bytes([n + 1]) * 512
                with client.request(bytes([n]) * 512) as reply:
                    with pytest.raises(cuda_ipc.CudaIpcError) as refused:
                        _ = reply.data
                    assert refused.value.code == "UNSUPPORTED"


def test_the_structures_have_the_sizes_of_cuda_h():
    from cuda_ipc._cuda import _Access, _AllocationProperties

    assert ctypes.sizeof(_AllocationProperties) == 32 and ctypes.sizeof(_Access) == 12


def test_the_callbacks_allocate_memory_that_is_shared_without_a_copy(hub):
    """PyTorch calls them in the same way, without knowing what they are."""
    import gc
    import weakref

    from cuda_ipc import _shareable
    from cuda_ipc._cuda import context_at
    from cuda_ipc._cuda_handles import BorrowedCudaMemory

    addresses = _shareable.callback_addresses()
    allocate = _shareable._Allocate(addresses[0])
    free = _shareable._Free(addresses[1])
    assert allocate(1 << 50, 0, None) is None, "PyTorch makes its own error of that"
    assert allocate(4096, 7, None) is None, "there is no such device"
    blocks = [allocate(size, 0, None) for size in (1, 2 << 20, 5 << 20)]
    assert all(blocks) and len(_shareable.blocks) == 3
    memory = BorrowedCudaMemory(context_at(0), blocks[2], 5 << 20, None)
    memory.write(1 << 20, memoryview(bytes(range(64))))
    tensor = a_tensor(memory, "float32", (4, 4), 1 << 20)
    with hub.share("born", tensor) as shared:
        assert (shared.copied, shared.why) == (False, None)
        with hub.open("born") as same:
            assert same.tobytes() == bytes(range(64)) and same.shape == (4, 4)
            memory.write(1 << 20, memoryview(bytes(64)))
            assert same.tobytes() == bytes(64)
            kept = weakref.ref(tensor)
            del tensor
            gc.collect()
            assert kept() is not None, "the name keeps the framework's array"
            free(blocks[2], 5 << 20, 0, None)
            assert same.tobytes() == bytes(64), "who has opened it keeps the memory"
    gc.collect()
    assert kept() is None, "until it is closed"
    for block in blocks[:2]:
        free(block, 0, 0, None)
    free(blocks[0], 0, 0, None)
    assert _shareable.blocks == {}


PEER = """
import ctypes
from cuda_ipc import interop
from cuda_ipc._cuda import context_at
from cuda_ipc._cuda_library import declare
from cuda_ipc._cuda_handles import BorrowedCudaMemory
library = declare({"cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t]})
address = ctypes.c_uint64()
with context_at(0).current():
    assert library.cuMemAlloc_v2(ctypes.byref(address), 1 << 20) == 0
memory = BorrowedCudaMemory(context_at(0), address.value, 1 << 20, None)
memory.write(512, memoryview(bytes(range(24))))
class Tensor:
    dtype = "int16"
    __cuda_array_interface__ = {"version": 3, "shape": (3, 4), "typestr": "<i2", "strides": None, "data": (address.value + 512, False)}
handle = interop.handle_of(Tensor())
try:
    interop.open_handle(handle)
except cuda_ipc.CudaIpcError as own:
    say([handle.document(), own.code])
sys.stdin.readline()
say(list(memory.read(512, 4)))
hub.close()
"""


def test_a_handle_of_another_process_is_opened_once_and_checked(python):
    import base64
    import gc

    from cuda_ipc import _cuda_handles, interop

    peer = python(PEER)
    document, own = peer.said()
    assert own == "OWN_HANDLE"
    assert document["kind"] == "raw-handle" and document["array"]["byteOffset"] == 512
    handle, spec = document["handle"], document["array"]
    array = interop.open_handle(handle, spec["dtype"], spec["shape"], byte_offset=512)
    raw = base64.b64decode(handle)
    again = interop.open_handle(b"\2c" + raw, "int16", 12, byte_offset=512)
    assert array.tobytes() == again.tobytes() == bytes(range(24))
    for wrong, code in (
        (lambda: interop.open_handle(raw[:63], "int8", 1), "INVALID_HANDLE"),
        (lambda: interop.open_handle(b"\1e" + raw, "int8", 1), "UNSUPPORTED"),
        (lambda: interop.open_handle("?", "int8", 1), "INVALID_HANDLE"),
        (lambda: interop.open_handle(bytes(64), "int8", 1), "INVALID_HANDLE"),
        (lambda: interop.open_handle(raw, "int8", (1 << 20) + 1), "INVALID_DESCRIPTOR"),
        (lambda: interop.open_handle(raw, "int8", 1, device="host"), "INVALID_DEVICE"),
        (lambda: interop.handle_of(bytearray_tensor()), "UNSUPPORTED"),
    ):
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            wrong()
        assert refused.value.code == code
    with pytest.raises(ValueError, match="aligned"):
        interop.open_handle(raw, "int16", 1, byte_offset=1)
    with pytest.raises(TypeError):
        interop.open_handle(raw)
    again.write(b"\7\7\7\7" + bytes(20))
    peer.tell()
    assert peer.said() == [7, 7, 7, 7]
    del array, again
    gc.collect()
    assert len(_cuda_handles._opened) == 0
    peer.finish()


def bytearray_tensor():
    numpy = pytest.importorskip("numpy")
    return numpy.zeros(3, numpy.uint8)


POOL_PEER = """
import ctypes, os, socket
from cuda_ipc._cuda import context_at
from cuda_ipc._cuda_library import declare
class Props(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int * 2), ("win", ctypes.c_void_p), ("max", ctypes.c_size_t), ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]
u, p, s = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
library = declare({"cuMemPoolCreate": [p, p], "cuMemAllocFromPoolAsync": [p, s, p, p], "cuStreamCreate": [p, ctypes.c_uint], "cuStreamSynchronize": [p], "cuMemPoolExportToShareableHandle": [p, p, ctypes.c_int, u], "cuMemPoolExportPointer": [p, u]})
pool, stream, address, fd, data = p(), p(), u(), ctypes.c_int(-1), (ctypes.c_ubyte * 64)()
props = Props(); props.type, props.handles, props.max = 1, 1, 1 << 22; props.location[0] = 1
with context_at(0).current():
    assert library.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(props)) == 0
    assert library.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert library.cuMemAllocFromPoolAsync(ctypes.byref(address), 4096, pool, stream) == 0
    assert library.cuStreamSynchronize(stream) == 0
    assert library.cuMemPoolExportToShareableHandle(ctypes.byref(fd), pool, 1, 0) == 0
    assert library.cuMemPoolExportPointer(data, address) == 0
    assert library.cuMemcpyHtoD_v2(address, bytes(range(256)), 256) == 0
    assert library.cuCtxSynchronize() == 0
with socket.socket(socket.AF_UNIX) as link:
    link.connect(sys.argv[2])
    socket.send_fds(link, [bytes(data)], [fd.value])
    link.recv(1)
hub.close()
"""


def test_memory_of_another_process_s_pool_is_opened_by_descriptor_and_name(python, tmp_path):
    import gc
    import socket
    import weakref

    from cuda_ipc import interop

    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        peer = python(POOL_PEER, path)
        link, _ = listener.accept()
    with link:
        data, (fd,), *_ = socket.recv_fds(link, 64, 1)

        class Handle:
            handle = fd

        class Descriptor:
            def __reduce__(self):
                return Descriptor, (data, 4096)

        pool = interop.open_pool(Handle())
        array = pool.open(Descriptor(), "uint8", (16, 16))
        assert array.tobytes() == bytes(range(256))
        whole = pool.open(data, "uint16", byte_length=4096)
        assert whole.shape == (2048,)
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            pool.open(Descriptor(), "uint8", 4097)
        assert refused.value.code == "INVALID_DESCRIPTOR"
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            pool.open(bytes(64), "uint8", 1)
        assert refused.value.code == "INVALID_HANDLE"
        with pytest.raises(ValueError, match="byte_length"):
            pool.open(data)
        kept = weakref.ref(pool._imported)
        del whole, pool, refused
        gc.collect()
        assert kept() is not None, "the array keeps the pool"
        assert array.tobytes() == bytes(range(256))
        del array
        gc.collect()
        os.close(fd)
        link.send(b"x")
    peer.finish()


def _use_devices(after):
    """Uses every device, all of them at a time. Calls `after` with the name of each step."""
    from cuda_ipc._cuda import CudaAllocation, _devices, full_uuid, import_memory
    from cuda_ipc._cuda_handles import copy_on_device, export_address, ordinal_of, range_of

    for context in _devices():
        mine = CudaAllocation(context, 1000)
        after("create")
        mine.write(0, memoryview(bytes(1000)))
        after("write")
        (fd,) = mine.fds()
        theirs = import_memory(fd, mine.length, True, full_uuid(context))
        after("import")
        with pytest.raises(cuda_ipc.CudaIpcError):
            import_memory(fd, mine.length * 2, True, full_uuid(context))
        after("an import that fails")
        os.close(fd)
        assert theirs.read(0, 1000) == bytes(1000)
        after("read")
        os.close(export_address(context, mine.address).fd)
        after("export")
        assert range_of(context, mine.address) == (mine.address, mine.length)
        copy_on_device(context, mine.address + 512, mine.address, 256)
        after("copy")
        theirs.finish()
        after("finish")
        del theirs, mine
        after("free")
    with pytest.raises(cuda_ipc.CudaError):
        ordinal_of(8)
    after("a question that fails")


def test_no_call_changes_the_current_context_of_its_thread():
    from concurrent.futures import ThreadPoolExecutor

    from cuda_ipc._cuda_library import current_context, declare

    library = declare(
        {
            "cuCtxSetFlags": [ctypes.c_uint],
            "cuCtxCreate_v2": [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int],
            "cuCtxDestroy_v2": [ctypes.c_void_p],
        }
    )

    def expect(wanted):
        def after(step):
            assert current_context() == wanted, step

        return after

    def run():
        _use_devices(expect(0))
        # Crashes if a released context is current.
        assert library.cuCtxSetFlags(0) == 201
        device, own = ctypes.c_int(), ctypes.c_void_p()
        assert library.cuDeviceGet(ctypes.byref(device), 0) == 0
        assert library.cuCtxCreate_v2(ctypes.byref(own), 0, device) == 0
        _use_devices(expect(own.value))
        assert library.cuCtxSetFlags(0) == 0
        assert library.cuCtxDestroy_v2(own) == 0
        assert current_context() == 0

    # On a new thread no context is current.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
