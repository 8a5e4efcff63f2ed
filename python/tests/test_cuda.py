"""GPU memory, without a hub: on a GPU, or on the libcuda of the tests that is written in C."""

from __future__ import annotations

import ctypes
import os

import pytest

import cuda_ipc
from cuda_ipc._dtypes import DTYPES
from cuda_ipc._layout import packed_layout
from cuda_ipc.arrays import Array, HandleState


def why_not() -> str:
    try:
        from cuda_ipc._cuda import context_at

        context_at(0)
    except cuda_ipc.CudaIpcError as missing:
        return missing.message
    return ""


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
