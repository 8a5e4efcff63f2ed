"""Memory of cudaMalloc under a name: on a GPU, or on the libcuda of the tests that is written in C."""

from __future__ import annotations

import ctypes

import pytest
from a_gpu import a_tensor, why_not
from conftest import LIMIT, hub_of, until

import cuda_ipc

pytestmark = pytest.mark.skipif(why_not() != "", reason=why_not())


@pytest.fixture
def malloc():
    """Memory of cudaMalloc, as frameworks have it, and its start."""
    from cuda_ipc._cuda import context_at
    from cuda_ipc._cuda_handles import BorrowedCudaMemory
    from cuda_ipc._cuda_library import declare

    library = declare(
        {"cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t], "cuMemFree_v2": [ctypes.c_uint64]}
    )
    address = ctypes.c_uint64()
    with context_at(0).current():
        assert library.cuMemAlloc_v2(ctypes.byref(address), 1 << 20) == 0
    memory = BorrowedCudaMemory(context_at(0), address.value, 1 << 20, None)
    memory.write(256, memoryview(b"abcdefgh"))
    yield memory
    with context_at(0).current():
        library.cuMemFree_v2(address)


def test_memory_of_cudamalloc_is_shared_without_a_copy(hub, malloc):
    with hub.share("malloc", a_tensor(malloc, "uint8", (2, 4), 256)) as shared:
        assert (shared.copied, shared.why, shared.mechanism) == (False, None, "legacy")
        with hub.open("malloc") as same:
            assert (same.shape, same.readonly, same.memory_gone) == ((2, 4), True, False)
            assert same.tobytes() == b"abcdefgh"
            malloc.write(256, memoryview(b"ABCD"))
            assert same.tobytes() == b"ABCDefgh"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"copy": True}, "asked for"),
        ({"pinned": True}, "pinned"),
        ({"sharing": {"with": "all"}}, "other users"),
    ],
)
def test_memory_of_cudamalloc_is_copied_if_its_handle_would_not_do(hub, malloc, wanted, why):
    with hub.share("copied", a_tensor(malloc, "uint8", (2, 4), 256), **wanted) as shared:
        assert shared.copied and why in shared.why and shared.mechanism == "vmm"
        malloc.write(256, memoryview(b"ABCD"))
        assert hub.open("copied").tobytes() == b"abcdefgh" and shared.device == "cuda:0"
    hub.remove("copied") if wanted.get("pinned") else None


def test_memory_without_a_handle_is_copied_and_says_why(hub, malloc, monkeypatch):
    from cuda_ipc import _cuda_handles

    def refuse(*_):
        raise cuda_ipc.CudaIpcError("UNSUPPORTED", "as for memory of cudaMallocAsync")

    monkeypatch.setattr(_cuda_handles, "handle_of", refuse)
    with hub.share("pool", a_tensor(malloc, "uint8", (8,), 256)) as shared:
        assert shared.copied and "cudaMallocAsync" in shared.why
        assert hub.open("pool").tobytes() == b"abcdefgh"


READER = """
array = hub.open("lent")
say(list(array.tobytes()))
for line in sys.stdin:
    if line.strip() == '"close"':
        array.close()
        say("closed")
        continue
    try:
        say([array.memory_gone, list(array.tobytes())])
    except cuda_ipc.CudaIpcError as error:
        say([array.memory_gone, error.code])
hub.close()
"""


def test_a_tensor_is_kept_until_its_last_reader_has_closed_it(hub, python, malloc):
    import gc
    import weakref

    tensor = a_tensor(malloc, "uint8", (8,), 256)
    kept = weakref.ref(tensor)
    shared = hub.share("lent", tensor)
    del tensor
    reader = python(READER)
    assert bytes(reader.said()) == b"abcdefgh"
    shared.close()
    gc.collect()
    with pytest.raises(cuda_ipc.CudaIpcError) as missing:
        hub.open("lent", wait=False)
    assert missing.value.code == "NOT_FOUND", "its name is free"
    malloc.write(256, memoryview(b"A"))
    reader.tell("read")
    assert reader.said() == [False, list(b"Abcdefgh")]
    assert kept() is not None, "the reader has it"
    reader.tell("close")
    assert reader.said() == "closed"
    until("nothing keeps the tensor", lambda: gc.collect() >= 0 and kept() is None)
    reader.finish()


OWNER = """
import ctypes
from cuda_ipc._cuda import context_at
from cuda_ipc._cuda_library import declare
from cuda_ipc._cuda_handles import BorrowedCudaMemory
library = declare({"cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t]})
address = ctypes.c_uint64()
with context_at(0).current():
    assert library.cuMemAlloc_v2(ctypes.byref(address), 1 << 20) == 0
BorrowedCudaMemory(context_at(0), address.value, 1 << 20, None).write(0, memoryview(b"abcdefgh"))
class Tensor:
    dtype = "uint8"
    __cuda_array_interface__ = {"version": 3, "shape": (8,), "typestr": "|u1", "strides": None,
                                "data": (address.value, False)}
shared = hub.share("lent", Tensor())
say(shared.mechanism)
sys.stdin.readline()
"""


def test_readers_are_told_when_the_owner_dies(hub, python):
    owner = python(OWNER)
    assert owner.said() == "legacy"
    array = hub.open("lent")
    assert array.tobytes() == b"abcdefgh" and not array.memory_gone
    owner.kill()
    until("the mark is ended", lambda: array.memory_gone)
    with pytest.raises(cuda_ipc.CudaIpcError) as gone:
        array.tobytes()
    assert gone.value.code == "PEER_GONE"
    with pytest.raises(AttributeError):
        _ = array.__array_interface__
    with pytest.raises(cuda_ipc.CudaIpcError) as refused:
        _ = array.__cuda_array_interface__
    assert refused.value.code == "PEER_GONE"
    array.close()
    with pytest.raises(cuda_ipc.CudaIpcError) as missing:
        hub.open("lent", wait=False)
    assert missing.value.code == "NOT_FOUND"


CHANGES = OWNER.replace(
    "sys.stdin.readline()",
    """
for line in sys.stdin:
    BorrowedCudaMemory(context_at(0), address.value, 1 << 20, None).write(0, memoryview(b"A"))
    say("written")
""",
)


@pytest.mark.parametrize("with_keeper", [False, True])
def test_a_tensor_outlives_its_hub_and_readers_still_learn_of_its_owner(
    own_hub, python, with_keeper
):
    owner = python(CHANGES, at=own_hub.socket)
    assert owner.said() == "legacy"
    with cuda_ipc.connect(own_hub.socket) as hub:
        array = hub.open("lent")
        before = hub.status()["instance"]
        if with_keeper:
            own_hub.kill_with_keeper()
            until("the hub is gone", lambda: hub_of(own_hub.socket) is None)
            own_hub.start()
        else:
            own_hub.kill()
        until("it came back", lambda: hub.status(timeout=LIMIT)["instance"] != before)
        owner.tell("write")
        assert owner.said() == "written"
        assert (array.memory_gone, array.tobytes()) == (False, b"Abcdefgh")
        until("both have it", lambda: [info.leases for info in hub.list()] == [2])
        with hub.open("lent") as later:
            assert later.tobytes() == b"Abcdefgh"
        owner.kill()
        until("the mark is ended", lambda: array.memory_gone)
        with pytest.raises(cuda_ipc.CudaIpcError) as gone:
            array.tobytes()
        assert gone.value.code == "PEER_GONE"


def test_a_false_handle_is_refused_and_nothing_is_held(hub, malloc):
    from cuda_ipc import _legacy

    tensor = a_tensor(malloc, "uint8", (8,), 256)
    with hub.share("lie", tensor) as shared:
        (own,) = [one for one in _legacy._own.values() if one.memory is not None]
        del _legacy._own[next(key for key, one in _legacy._own.items() if one is own)]
        with pytest.raises(cuda_ipc.CudaIpcError) as refused:
            hub.open("lie")
        assert refused.value.code == "OWN_HANDLE"
        assert shared.tobytes() == b"abcdefgh"
        assert [info.leases for info in hub.list() if info.name == "lie"] == [1]


OPENS_A_LIE = """
try:
    hub.open("lie")
except cuda_ipc.CudaIpcError as error:
    say(error.code)
hub.close()
"""


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ({"handle": b"\xff" * 64}, "INVALID_HANDLE"),
        ({"handle": bytes(64)}, "INVALID_HANDLE"),
        ({"length": 1 << 30}, "INVALID_DESCRIPTOR"),
    ],
)
def test_a_reader_refuses_a_handle_of_nothing_and_a_block_that_is_too_short(
    hub, malloc, python, monkeypatch, lie, code
):
    from cuda_ipc import _cuda_handles

    honest = _cuda_handles.handle_of
    monkeypatch.setattr(_cuda_handles, "handle_of", lambda *of: honest(*of)._replace(**lie))
    with hub.share("lie", a_tensor(malloc, "uint8", (8,), 256)) as shared:
        reader = python(OPENS_A_LIE)
        assert reader.said() == code
        reader.finish()
        assert shared.tobytes() == b"abcdefgh"
