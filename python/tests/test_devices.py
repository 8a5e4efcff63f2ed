"""Names of devices: everything that a call takes, CUDA_IPC_DEVICE, and the errors."""

from __future__ import annotations

import types

import pytest
from conftest import code

import cuda_ipc
from cuda_ipc._device_names import device_name, gpu_ordinal


class TorchDevice:
    """As a `torch.device`, which is not installed everywhere."""

    def __init__(self, kind: str, index: int | None = None) -> None:
        self.type = kind
        self.index = index


@pytest.fixture(params=["torch's own", "alike"])
def torch_device(request):
    if request.param == "alike":
        return TorchDevice
    return pytest.importorskip("torch").device


@pytest.mark.parametrize(
    ("given", "name"),
    [("host", "host"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("1", "cuda:1"), (1, "cuda:1")],
)
def test_a_device_is_given_by_its_name_or_its_number(given, name):
    assert device_name(given) == name


def test_a_device_of_torch_is_taken(torch_device):
    assert device_name(torch_device("cpu")) == "host"
    assert device_name(torch_device("cuda", 1)) == "cuda:1"
    assert code(lambda: device_name(torch_device("meta"))) == "INVALID_DEVICE"


def test_a_cuda_device_of_torch_without_a_number_is_its_current_one(monkeypatch):
    cuda = types.SimpleNamespace(is_available=lambda: True, current_device=lambda: 2)
    monkeypatch.setitem(__import__("sys").modules, "torch", types.SimpleNamespace(cuda=cuda))
    assert device_name(TorchDevice("cuda")) == "cuda:2"
    cuda.is_available = lambda: False
    assert device_name(TorchDevice("cuda")) == "cuda:0"


@pytest.mark.parametrize("missing", ["DRIVER_NOT_FOUND", "DEVICE_NOT_FOUND"])
def test_auto_is_the_first_gpu_and_the_host_without_one(monkeypatch, missing):
    monkeypatch.setattr("cuda_ipc._cuda.context_at", lambda ordinal: None)
    assert device_name("auto") == "cuda:0"

    def no_gpu(ordinal):
        raise cuda_ipc.CudaIpcError(missing, "Cannot use the GPU")

    monkeypatch.setattr("cuda_ipc._cuda.context_at", no_gpu)
    assert device_name("auto") == "host"


def test_auto_reports_a_broken_driver(monkeypatch):
    def broken(ordinal):
        raise cuda_ipc.CudaIpcError("DRIVER_TOO_OLD", "Cannot use the CUDA driver")

    monkeypatch.setattr("cuda_ipc._cuda.context_at", broken)
    assert code(lambda: device_name("auto")) == "DRIVER_TOO_OLD"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("cpu", '"host"'),
        ("gpu", '"cuda:0"'),
        ("GPU", '"cuda:0"'),
        ("hots", '"host"'),
        ("tpu:0", ""),
    ],
)
def test_a_wrong_name_lists_what_is_possible(given, meant):
    with pytest.raises(cuda_ipc.CudaIpcError) as caught:
        device_name(given)
    assert caught.value.code == "INVALID_DEVICE"
    wanted = f'Cannot use the device {given!r}: wanted "host", "auto", or "cuda:N" or "N"'
    assert caught.value.message.startswith(wanted)
    assert (f"Did you mean {meant}?" in caught.value.message) == (meant != "")


@pytest.mark.parametrize("given", [-1, "-1", "cuda:-1", "cuda:", "", "cuda:12345"])
def test_a_wrong_number_is_refused(given):
    assert code(lambda: device_name(given)) == "INVALID_DEVICE"


@pytest.mark.parametrize("given", [True, 1.0, object(), b"host"])
def test_a_wrong_type_is_refused(given):
    with pytest.raises(TypeError, match='device must be a name such as "host" or "cuda:0"'):
        device_name(given)


def test_every_call_takes_a_device_of_torch(hub, torch_device):
    host = torch_device("cpu")
    for number, make in enumerate(
        [
            lambda name: hub.create(name, "int8", 1, device=host),
            lambda name: hub.put(name, b"a", dtype="int8", device=host),
            lambda name: hub.create_bundle(name, {"a": ("int8", 1)}, device=host),
            lambda name: hub.create_channel(name, "int8", 1, device=host),
        ]
    ):
        with make(f"devices:{number}"):
            pass
    sizes = {"request": ("int8", 1), "reply": ("int8", 1)}
    with hub.serve("devices:serve", lambda request, reply: {}, device=host, **sizes):
        with hub.connect_service("devices:serve", device=host) as client:
            assert client.request(b"a").byte_length == 0


def test_every_call_refuses_a_wrong_device_at_once(hub):
    sizes = {"request": ("int8", 1), "reply": ("int8", 1)}
    for call in (
        lambda: cuda_ipc.connect(hub.socket_path, device="gpu"),
        lambda: hub.create("devices:wrong", "int8", 1, device="gpu"),
        lambda: hub.put("devices:wrong", b"a", dtype="int8", device="gpu"),
        lambda: hub.create_bundle("devices:wrong", {"a": ("int8", 1)}, device="gpu"),
        lambda: hub.create_channel("devices:wrong", "int8", 1, device="gpu"),
        lambda: hub.serve("devices:wrong", print, device="gpu", **sizes),
        lambda: hub.connect_service("devices:wrong", device="gpu"),
        lambda: cuda_ipc.interop.open_handle(bytes(64), "int8", 1, device="gpu"),
        lambda: cuda_ipc.interop.open_handle(bytes(64), "int8", 1, device="host"),
        lambda: cuda_ipc.interop.open_pool(0, device=TorchDevice("cpu")),
        lambda: cuda_ipc.torch.current_stream("gpu"),
    ):
        assert code(call) == "INVALID_DEVICE"


@pytest.mark.parametrize(
    ("variable", "name"),
    [(None, "host"), ("", "host"), ("host", "host"), ("cuda:7", "cuda:7"), ("7", "cuda:7")],
)
def test_the_environment_names_the_device_where_none_is_given(hub, monkeypatch, variable, name):
    if variable is None:
        monkeypatch.delenv("CUDA_IPC_DEVICE", raising=False)
    else:
        monkeypatch.setenv("CUDA_IPC_DEVICE", variable)
    asked = []

    def no_gpu(ordinal):
        asked.append(f"cuda:{ordinal}")
        raise cuda_ipc.CudaIpcError("DEVICE_NOT_FOUND", f"Cannot use cuda:{ordinal}")

    monkeypatch.setattr("cuda_ipc._cuda.context_at", no_gpu)
    with cuda_ipc.connect(hub.socket_path) as other:
        if name == "host":
            other.create("devices:environment", "int8", 1).close()
        else:
            assert code(lambda: other.create("devices:environment", "int8", 1)) == (
                "DEVICE_NOT_FOUND"
            )
        other.create("devices:environment", "int8", 1, device="host").close()
    assert asked == ([] if name == "host" else [name])


def test_connect_names_the_device_of_all_calls(hub):
    with cuda_ipc.connect(hub.socket_path, device=TorchDevice("cuda", 9)) as other:
        found = code(lambda: other.create("devices:connect", "int8", 1))
        assert found in ("DRIVER_NOT_FOUND", "DEVICE_NOT_FOUND")
        other.create("devices:connect", "int8", 1, device="host").close()


def test_connect_finds_a_misspelt_environment(hub, monkeypatch):
    monkeypatch.setenv("CUDA_IPC_DEVICE", "gpu")
    with pytest.raises(cuda_ipc.CudaIpcError, match="CUDA_IPC_DEVICE 'gpu'") as caught:
        cuda_ipc.connect(hub.socket_path)
    assert caught.value.code == "INVALID_DEVICE"
    cuda_ipc.connect(hub.socket_path, device="host").close()


def test_a_raw_handle_is_of_a_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_IPC_DEVICE", raising=False)
    assert gpu_ordinal(None) == 0
    monkeypatch.setenv("CUDA_IPC_DEVICE", "host")
    assert gpu_ordinal(None) == 0
    monkeypatch.setenv("CUDA_IPC_DEVICE", "2")
    assert gpu_ordinal(None) == 2
    assert gpu_ordinal("auto") == 0
    assert gpu_ordinal(TorchDevice("cuda", 3)) == 3
    assert code(lambda: gpu_ordinal("host")) == "INVALID_DEVICE"
