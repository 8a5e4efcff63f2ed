"""A model's weights by name, as a framework's views of one shared memory."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import os
import pathlib
import pickle
import subprocess

import pytest
from conftest import LIMIT, ROOT

import cuda_ipc

numpy = pytest.importorskip("numpy")


@pytest.fixture(autouse=True)
def own_socket(socket, monkeypatch):
    monkeypatch.setenv("CUDA_IPC_SOCKET", socket)


@pytest.fixture
def model(hub):
    arrays = {
        "body.weight": ("float32", (4, 4)),
        "body.bias": ("float32", 4),
        "small": ("bfloat16", (2, 3)),
        "steps": ("int64", ()),
    }
    bundle = hub.create_bundle("model", arrays, {"format": "pt"}, pinned=True)
    bundle["body.weight"].numpy()[:] = numpy.arange(16).reshape(4, 4)
    bundle["body.bias"].numpy()[:] = 1
    bundle["small"].write(b"\x80\x3f" * 6)
    bundle["steps"].numpy()[...] = 7
    bundle.publish()
    bundle.close()
    yield
    hub.remove("model")


def read(name):
    return cuda_ipc.numpy.load_file(name, timeout=LIMIT, wait=True)


def test_numpy_gets_names_dtypes_shapes_and_metadata_as_views(model):
    pytest.importorskip("ml_dtypes")
    weights = read("model")
    assert list(weights) == ["body.weight", "body.bias", "small", "steps"]
    assert weights.metadata == {"format": "pt"} and weights.name == "model"
    assert weights["body.weight"][1].tolist() == [4, 5, 6, 7]
    assert weights["small"].dtype.name == "bfloat16" and int(weights["steps"]) == 7
    assert not weights["body.bias"].flags.writeable
    writable = cuda_ipc.numpy.load_file("model", access="read-write")
    writable["body.bias"][0] = 5
    assert weights["body.bias"][0] == 5, "it is the same memory"


def test_saved_weights_are_loaded_again(model, tmp_path):
    torch = pytest.importorskip("torch")
    weights = cuda_ipc.torch.load_file("model")
    path = tmp_path / "checkpoint.pt"
    for value in (weights, {"model": weights}):
        torch.save(value, path)
        loaded = torch.load(path, weights_only=True)
        found = loaded if value is weights else loaded["model"]
        assert list(found) == list(weights) and found.metadata == {"format": "pt"}
        assert all(torch.equal(found[name], weights[name]) for name in weights)
    arrays = read("model")
    copied = copy.deepcopy(arrays)
    loaded = pickle.loads(pickle.dumps(arrays))
    for same in (copied, loaded):
        assert same["body.weight"].tolist() == arrays["body.weight"].tolist()
    copied["body.bias"][0] = 9
    assert arrays["body.bias"][0] == 1


def test_the_last_view_gives_the_lease_and_the_connection_back(model, hub):
    def holders():
        return [(holder.pid, holder.access) for holder in hub.inspect("model")[1]]

    assert holders() == []
    weights = cuda_ipc.numpy.load_file("model")
    last = weights["body.bias"]
    del weights
    gc.collect()
    assert holders() == [(os.getpid(), "read")] and last[0] == 1
    assert hub.status()["clients"] == 2
    del last
    gc.collect()
    from conftest import until

    until("the lease and the connection are back", lambda: holders() == [])
    until("only this session is left", lambda: hub.status()["clients"] == 1)
    weights = cuda_ipc.numpy.load_file("model", hub=hub)
    assert holders() == [(os.getpid(), "read")]
    del weights
    gc.collect()
    until("the lease in a connection of the caller's is back", lambda: holders() == [])


def test_a_missing_model_is_explained_and_waited_for_when_asked(hub, python, patient_explanations):
    with pytest.raises(cuda_ipc.CudaIpcError) as missing:
        cuda_ipc.numpy.load_file("nobody")
    assert missing.value.code == "NOT_FOUND" and "wait=True" in missing.value.message
    with hub.create_bundle("late", {"a": ("int8", 2)}) as bundle:
        with pytest.raises(cuda_ipc.CudaIpcError) as missing:
            cuda_ipc.numpy.load_file("late", hub=hub)
        assert missing.value.code == "NOT_FOUND"
        assert f"process {os.getpid()} (pytest)" in missing.value.message
        with pytest.raises(TimeoutError, match="has not published it yet"):
            cuda_ipc.numpy.load_file("late", hub=hub, wait=True, timeout=0.05)
        peer = python("say(list(cuda_ipc.numpy.load_file('late', hub=hub, wait=True)))\n")
        from conftest import until

        until("the peer waits", lambda: hub.status()["waitingOpens"] == 1)
        bundle.publish()
        assert peer.said() == ["a"]
        peer.finish()
    with hub.put("array", b"abc"), pytest.raises(cuda_ipc.CudaIpcError) as missing:
        cuda_ipc.numpy.load_file("array")
    assert missing.value.code == "WRONG_KIND"


def module(torch, device="meta"):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.register_buffer("small", torch.zeros(2, 3, dtype=torch.bfloat16))
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            return self.body(x)

    with torch.device(device):
        return Net()


def test_pytorch_loads_a_file_and_a_model_without_a_copy(model, hub):
    torch = pytest.importorskip("torch")
    weights = cuda_ipc.torch.load_file("model")
    assert {name: str(tensor.dtype) for name, tensor in weights.items()} == {
        "body.weight": "torch.float32",
        "body.bias": "torch.float32",
        "small": "torch.bfloat16",
        "steps": "torch.int64",
    }
    assert weights.metadata == {"format": "pt"} and weights["steps"].shape == ()
    net = module(torch)
    assert cuda_ipc.torch.load_model(net, "model", hub=hub) == ([], [])
    assert not any(parameter.requires_grad for parameter in net.parameters())
    with torch.no_grad():
        assert net(torch.ones(4)).tolist() == [7.0, 23.0, 39.0, 55.0]
    writable = cuda_ipc.numpy.load_file("model", access="read-write")
    writable["body.bias"][:] = 2
    assert net(torch.ones(4)).tolist() == [8.0, 24.0, 40.0, 56.0], "the parameters are views"
    del weights
    own = module(torch, "cpu")
    cuda_ipc.torch.load_model(own, "model", access="read-write")
    assert own.body.weight.requires_grad
    own.body.bias.data[0] = 9
    assert net.body.bias[0] == 9


def writes(torch):
    """Each kind of store into a module: of training, of a checkpoint, in place."""

    def train(net):
        net.train()
        net(torch.ones(2, 4))

    def load(net):
        net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})

    def in_place(net):
        with torch.no_grad():
            for tensor in net.state_dict().values():
                tensor.add_(1)

    return (train, load, in_place)


@pytest.mark.parametrize("access", ["read", "copy"])
def test_what_a_module_writes_stays_in_its_process(hub, access):
    torch = pytest.importorskip("torch")
    norm = torch.nn.BatchNorm1d(4)
    arrays = {name: (value.dtype, tuple(value.shape)) for name, value in norm.state_dict().items()}
    with hub.create_bundle("norm", arrays) as bundle:
        for name, value in norm.state_dict().items():
            bundle[name].write(value)
        bundle.publish()
        before = {name: array.tobytes() for name, array in bundle.items()}
        for write in writes(torch):
            with torch.device("meta"):
                loaded = torch.nn.BatchNorm1d(4)
            cuda_ipc.torch.load_model(loaded, "norm", hub=hub, access=access)
            assert loaded.weight.requires_grad == (access == "copy")
            old = [value.clone() for value in loaded.state_dict().values()]
            write(loaded)
            new = loaded.state_dict().values()
            assert not all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
        weights = cuda_ipc.torch.load_file("norm", hub=hub, access=access)
        weights["weight"].fill_(5)
        assert weights["weight"].tolist() == [5] * 4
        assert {name: array.tobytes() for name, array in bundle.items()} == before
        if access == "copy":
            copied = cuda_ipc.numpy.load_file("norm", hub=hub, access="copy")
            copied["bias"][:] = 3
            with hub.open_bundle("norm", access="copy") as opened:
                opened["bias"].numpy()[0] = 4
                assert opened["bias"].tolist() == [4, 0, 0, 0]
            assert {name: array.tobytes() for name, array in bundle.items()} == before


def test_buffers_are_shared_on_request_and_parameters_always(hub):
    torch = pytest.importorskip("torch")
    with hub.create_bundle("norm", {"running_mean": ("float32", 4), "weight": ("float32", 4)}) as b:
        b.publish()
        for access, shared in (("read", 0), ("read-write", 2)):
            net = torch.nn.BatchNorm1d(4)
            cuda_ipc.torch.load_model(net, "norm", hub=hub, access=access, strict=False)
            b["running_mean"].numpy()[:] = 2
            b["weight"].numpy()[:] = 7
            assert net.running_mean[0] == shared and net.weight[0] == 7
            b["running_mean"].numpy()[:] = 0


def test_names_that_do_not_fit_are_told_and_tied_parameters_stay_tied(model, hub):
    torch = pytest.importorskip("torch")

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 4, bias=False)
            self.head.weight = self.body.weight

    tied = Tied()
    with pytest.raises(RuntimeError, match="unexpected: small, steps"):
        cuda_ipc.torch.load_model(tied, "model")
    assert cuda_ipc.torch.load_model(tied, "model", strict=False) == ([], ["small", "steps"])
    assert tied.head.weight is tied.body.weight and tied.head.weight[0, 1] == 1
    with pytest.raises(RuntimeError, match="missing: more"):
        net = module(torch)
        net.register_parameter("more", torch.nn.Parameter(torch.zeros(1)))
        cuda_ipc.torch.load_model(net, "model")


def test_jax_views_what_is_opened_for_writing_and_copies_on_request(model, hub):
    jax = pytest.importorskip("jax")
    weights = cuda_ipc.jax.load_file("model")
    assert weights["small"].dtype == "bfloat16" and weights["body.weight"].shape == (4, 4)
    copied = cuda_ipc.jax.load_file("model", copy=True)
    writable = cuda_ipc.numpy.load_file("model", access="read-write")
    writable["body.bias"][:] = 3
    assert weights["body.bias"].tolist() == [3.0] * 4
    assert copied["body.bias"].tolist() == [1.0] * 4
    assert int(weights["steps"]) == int(copied["steps"]) == 7
    values = jax.jit(lambda w, x: w @ x)(weights["body.weight"], jax.numpy.ones(4))
    assert values.tolist() == [6.0, 22.0, 38.0, 54.0]


def test_jax_writes_to_a_copy_of_this_process(model, hub):
    jax = pytest.importorskip("jax")
    weights = cuda_ipc.jax.load_file("model", hub=hub, access="copy")
    assert "read-write" not in {holder.access for holder in hub.inspect("model")[1]}
    bias = weights["body.bias"]
    # As a computation writes to an array that was donated to it.
    at = jax.numpy.asarray(bias).unsafe_buffer_pointer()
    ctypes.c_float.from_address(at).value = 9
    assert bias.tolist() == [9.0, 1.0, 1.0, 1.0]
    assert cuda_ipc.numpy.load_file("model", hub=hub)["body.bias"].tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="JAX has no read-only arrays"):
        cuda_ipc.jax.load_file("model", access="read")


def test_a_folder_of_hugging_face_is_put_by_the_command_and_loaded(tmp_path, hub, socket):
    safetensors = pytest.importorskip("safetensors.numpy")
    names = ["a.weight", "b.weight"]
    for n, name in enumerate(names):
        values = {name: numpy.full((3, 3), n + 1, numpy.float16)}
        safetensors.save_file(values, tmp_path / f"model-{n}.safetensors", {"format": "pt"})
    index = {"metadata": {"total_size": 36}}
    index["weight_map"] = {name: f"model-{n}.safetensors" for n, name in enumerate(names)}
    pathlib.Path(tmp_path, "model.safetensors.index.json").write_text(json.dumps(index))
    pathlib.Path(tmp_path, "config.json").write_text("{}")
    command = ["node", str(ROOT / "build/src/cli/launch.cjs"), "put", "folder", str(tmp_path)]
    subprocess.run(
        [*command, "--device", "host"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT
    )
    try:
        weights = cuda_ipc.numpy.load_file("folder")
        assert sorted(weights) == names
        for n, name in enumerate(names):
            assert weights[name].dtype == numpy.float16 and (weights[name] == n + 1).all()
    finally:
        hub.remove("folder")


def test_dtypes_that_only_the_framework_has_come_as_views(tmp_path, hub, socket):
    torch = pytest.importorskip("torch")
    dtypes = {"F8_E8M0": [4], "F4": [2, 4], "F8_E4M3FNUZ": [2, 2], "F6_E2M3": [4]}
    header, at = {}, 0
    for dtype, shape in dtypes.items():
        end = at + (3 if dtype == "F6_E2M3" else 4)
        header[dtype] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    header["BF16"] = {"dtype": "BF16", "shape": [2], "data_offsets": [at, at + 4]}
    text = json.dumps(header).encode()
    path = tmp_path / "scales.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes([127]) * (at + 4))
    command = ["node", str(ROOT / "build/src/cli/launch.cjs"), "put", "scales", str(path)]
    subprocess.run(
        [*command, "--device", "host"], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT
    )
    try:
        weights = cuda_ipc.torch.load_file("scales")
        assert weights["BF16"].dtype == torch.bfloat16 and weights.metadata == {}
        assert weights["F6_E2M3"].dtype == torch.uint8 and weights["F6_E2M3"].shape == (3,)
        for name, found in (
            ("F8_E8M0", "float8_e8m0fnu"),
            ("F4", "float4_e2m1fn_x2"),
            ("F8_E4M3FNUZ", "float8_e4m3fnuz"),
        ):
            wanted = getattr(torch, found, torch.uint8)
            assert weights[name].dtype == wanted
            assert weights[name].view(torch.uint8).flatten().tolist() == [127] * 4
        arrays = cuda_ipc.numpy.load_file("scales") if has_ml_dtypes() else {}
        assert all(
            arrays[name].dtype == found
            for name, found in (("F8_E8M0", "float8_e8m0fnu"), ("F4", "uint8"))
            if name in arrays
        )
        if "F8_E8M0" in arrays:
            assert arrays["F8_E8M0"].astype("float32").tolist() == [1.0] * 4
    finally:
        hub.remove("scales")


def has_ml_dtypes():
    try:
        import ml_dtypes
    except ImportError:
        return False
    return hasattr(ml_dtypes, "float8_e8m0fnu")


def test_frameworks_that_are_missing_are_named(model, monkeypatch):
    import sys

    for name in ("torch", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(cuda_ipc.CudaIpcError, match=f"pip install {name}") as missing:
            getattr(cuda_ipc, name).load_file("model")
        assert missing.value.code == "UNSUPPORTED"
    with pytest.raises(AttributeError):
        _ = cuda_ipc.nothing
