"""What frameworks see of shared memory: every dtype, read-only views, and how long they last."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import LIMIT, SOURCE

import cuda_ipc
from cuda_ipc._protocol import DTYPE_SIZES

if os.environ.get("REQUIRE_TORCH") == "1":
    for name in ("numpy", "torch"):
        if importlib.util.find_spec(name) is None:
            raise RuntimeError(f"REQUIRE_TORCH=1, but there is no {name}")
numpy = pytest.importorskip("numpy")
if os.environ.get("REQUIRE_JAX") == "1" and importlib.util.find_spec("jax") is None:
    raise RuntimeError("REQUIRE_JAX=1, but there is no jax")

SMALL = ("float8_e4m3fn", "float8_e5m2", "bfloat16")


def raw(dtype: str) -> bytes:
    if dtype == "bool":
        return bytes([1, 0, 1, 1, 0, 0])
    # No pattern of it is a NaN of any dtype, because frameworks may change those.
    return bytes((n * 3 + 1) % 64 for n in range(6 * DTYPE_SIZES[dtype][0]))


def bytes_of_torch(tensor) -> bytes:
    import torch

    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPE_SIZES)
def test_pytorch_views_every_dtype_in_place_and_shares_it_back(dtype, hub):
    torch = pytest.importorskip("torch")
    array = hub.create("torch", dtype, (2, 3))
    array.write(raw(dtype))
    tensor = cuda_ipc.torch.view(array)
    assert str(tensor.dtype) == f"torch.{dtype}" and tensor.shape == (2, 3)
    assert bytes_of_torch(tensor) == raw(dtype)
    tensor.view(torch.uint8)[0, 0] ^= 1
    assert array.tobytes()[0] == raw(dtype)[0] ^ 1, "it is the very memory"
    array.close()
    mine = cuda_ipc.torch.empty(3, 2, dtype=getattr(torch, dtype))
    mine.copy_(tensor.t().contiguous())
    with hub.share("back", mine) as shared:
        assert (shared.copied, shared.why, shared.dtype) == (False, None, dtype)
        mine.view(torch.uint8)[0, 0] = 0
        with hub.open("back") as same:
            assert same.tobytes() == bytes_of_torch(mine)


@pytest.mark.parametrize("dtype", DTYPE_SIZES)
def test_jax_views_every_dtype_and_shares_it_back(dtype, hub):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        with hub.create("jax", dtype, (2, 3)) as array:
            array.write(raw(dtype))
            values = jax.dlpack.from_dlpack(array)
            assert str(values.dtype) == dtype and values.shape == (2, 3)
            assert numpy.asarray(values).tobytes() == raw(dtype)
            assert values.unsafe_buffer_pointer() == array._memory.address, "without a copy"
        with hub.share("jax:back", values) as shared:
            assert shared.copied and "heap" in shared.why and shared.dtype == dtype
            assert hub.open("jax:back").tobytes() == raw(dtype)


@pytest.mark.parametrize("dtype", DTYPE_SIZES)
def test_numpy_shares_every_dtype_by_one_copy(dtype, hub):
    if dtype in SMALL:
        pytest.importorskip("ml_dtypes")
    with hub.create("numpy", dtype, (2, 3)) as array:
        array.write(raw(dtype))
        values = array.numpy().copy()
    with hub.share("numpy:back", values) as shared:
        assert shared.copied and "heap" in shared.why
        same = hub.open("numpy:back")
        assert (same.dtype, same.shape, same.tobytes()) == (dtype, (2, 3), raw(dtype))
    with hub.share("numpy:strided", values[:, ::-2]) as shared:
        assert shared.copied and shared.numpy().tolist() == values[:, ::-2].tolist()


def test_the_old_form_of_dlpack_is_refused_for_memory_opened_for_reading(hub):
    pytest.importorskip("jax")
    import jax

    with hub.put("read", numpy.arange(4, dtype=numpy.float32)):
        with hub.open("read") as array, pytest.raises(BufferError, match="read-write"):
            jax.dlpack.from_dlpack(array)


LIFETIME = """
import gc, os, sys
sys.path.insert(0, sys.argv[2])
import cuda_ipc
import {framework}
with cuda_ipc.connect(sys.argv[1]) as hub:
    hub.put("life", bytes(range(64)))
    array = hub.open("life", access="read-write")
    view = {view}
    address = array._memory.address
    array.close()
del array, hub
gc.collect()
mapped = lambda: any(
    int(line.split("-")[0], 16) <= address < int(line.split("-")[1].split()[0], 16)
    for line in open("/proc/self/maps") if "memfd:cuda-ipc" in line
)
assert mapped(), "the view keeps the memory"
assert {read} == list(range(64))
del view
gc.collect()
assert not mapped(), "nothing else keeps it"
print("ended")
"""

VIEWS = {
    "numpy": ("numpy.from_dlpack(array)", "view.tolist()"),
    "torch": ("torch.from_dlpack(array)", "view.tolist()"),
    "jax": ("__import__('jax').dlpack.from_dlpack(array)", "view.tolist()"),
}


@pytest.mark.parametrize("framework", VIEWS)
def test_a_view_keeps_the_memory_and_nothing_else_does(framework, socket):
    pytest.importorskip(framework)
    view, read = VIEWS[framework]
    source = LIFETIME.format(framework=framework, view=view, read=read)
    done = subprocess.run(
        [sys.executable, "-c", source, socket, SOURCE],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.stdout == "ended\n", done.stderr


def test_a_shared_tensor_keeps_its_memory_until_it_is_closed(hub):
    torch = pytest.importorskip("torch")
    from cuda_ipc import _shareable

    gc.collect()
    before = len(_shareable._own)
    tensor = cuda_ipc.torch.empty(1000, dtype=torch.int32)
    tensor[:] = torch.arange(1000)
    shared = hub.share("kept", tensor[10:20])
    assert not shared.copied
    tensor[10] = -1
    del tensor
    gc.collect()
    assert len(_shareable._own) == before + 1
    with hub.open("kept") as same:
        assert same.tolist() == [-1, *range(11, 20)]
    shared.close()
    del shared
    gc.collect()
    assert len(_shareable._own) == before


def test_put_resolves_lazy_conjugates_and_negatives(hub):
    torch = pytest.importorskip("torch")
    values = torch.tensor([1 + 2j, 3 - 4j])
    for tensor in (values.conj(), values.conj().imag, torch._neg_view(values.conj())):
        with hub.put("lazy", tensor) as put:
            assert put.tolist() == tensor.tolist()
    with hub.create("written", torch.complex64, 2) as made:
        made.write(values.conj())
        assert made.tolist() == [1 - 2j, 3 + 4j]


def test_tensors_that_cannot_be_shared_are_refused_by_name(hub):
    torch = pytest.importorskip("torch")
    for tensor, found in (
        (torch.zeros(3, requires_grad=True), "detach"),
        (torch.zeros(3).to_sparse(), "to_dense"),
        (torch.zeros(3, device="meta"), "meta"),
        (torch.zeros(3, dtype=torch.complex64).conj(), "resolve_conj"),
        (torch.zeros(3, dtype=torch.complex64).conj().imag, r"negative.*resolve_neg"),
    ):
        with pytest.raises(cuda_ipc.CudaIpcError, match=found) as refused:
            hub.share("refused", tensor)
        assert refused.value.code == "UNSUPPORTED"
    with pytest.raises(cuda_ipc.CudaIpcError) as refused:
        hub.share("refused", torch.zeros(3, dtype=torch.complex32))
    assert refused.value.code == "UNSUPPORTED_DTYPE"
    with pytest.raises(TypeError, match=r"hub\.put"):
        hub.share("refused", [1, 2])
    if not torch.cuda.is_available():
        with pytest.raises(cuda_ipc.CudaIpcError) as refused, cuda_ipc.torch.shareable():
            pass
        assert refused.value.code == "UNSUPPORTED" and "empty()" in str(refused.value)
    with pytest.raises(cuda_ipc.CudaIpcError) as refused:
        cuda_ipc.torch.empty(3, device="meta")
    assert refused.value.code == "INVALID_DEVICE"
    with hub.share("strided", torch.arange(6).reshape(2, 3).t()) as shared:
        assert shared.copied and shared.tolist() == [0, 3, 1, 4, 2, 5]
    whole = cuda_ipc.torch.empty(2, 3, dtype=torch.int64)
    whole.copy_(torch.arange(6).reshape(2, 3))
    with hub.share("transposed", whole.t()) as shared:
        assert not shared.copied and shared.tolist() == [0, 3, 1, 4, 2, 5]
    assert hub.list() == []


def test_pools_of_pytorch_end_when_no_thread_allocates():
    import contextlib
    import types
    import weakref

    from cuda_ipc._shareable import Pools

    class MemPool:
        def __init__(self, allocator):
            made.append(weakref.ref(self))

    @contextlib.contextmanager
    def use_mem_pool(pool, device):
        yield

    made = []
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(MemPool=MemPool, use_mem_pool=use_mem_pool)
    )
    pools = Pools()
    with pools.allocating(torch, None):
        with pytest.raises(KeyError), pools.allocating(torch, None):
            raise KeyError
        # PyTorch would end the process if the inner pool went here.
        assert [one() is not None for one in made] == [True, True]
    assert [one() for one in made] == [None, None]


def test_handles_of_pytorch_are_told_from_wrong_ones():
    from cuda_ipc import interop

    plain = bytes(range(100, 164))
    assert interop.plain_handle(b"\x01c" + plain) == plain
    for parts in (1, 2, 100):
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            interop.plain_handle(b"\x01e" + bytes(24 + 4 * parts))
        assert refused.value.code == "UNSUPPORTED"
    for length in (0, 26, 63, 65):
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            interop.plain_handle(b"e" * length)
        assert refused.value.code == "INVALID_HANDLE"
    assert interop.plain_handle(b"e" * 64) == b"e" * 64
