"""Mistakes that users have made: each error says what was meant."""

from __future__ import annotations

import collections

import pytest

import cuda_ipc


@pytest.mark.parametrize(
    ("given", "meant"),
    [("float", "float32"), ("double", "float64"), ("flaot32", "float32"), (float, "float32")],
)
def test_a_dtype_of_another_name_is_suggested(hub, given, meant):
    with pytest.raises(cuda_ipc.CudaIpcError, match=f'Did you mean "{meant}"') as caught:
        hub.create("words:dtype", given, 1)
    assert caught.value.code == "UNSUPPORTED_DTYPE"


def test_a_dtype_like_no_other_has_the_list_alone(hub):
    with pytest.raises(
        cuda_ipc.CudaIpcError, match=r"wanted one of bool, .*complex128 \["
    ) as caught:
        hub.create("words:dtype", "qqqq", 1)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("of", ["numpy", "torch", "jax"])
def test_a_file_in_place_of_a_name_is_found_without_a_hub(monkeypatch, of):
    monkeypatch.setattr("cuda_ipc.connecting.connect", lambda: pytest.fail("it asks for a hub"))
    load = getattr(cuda_ipc, of).load_file
    with pytest.raises(cuda_ipc.CudaIpcError, match="`cuda-ipc put NAME FILE`") as caught:
        load("/x/v1.safetensors")
    assert caught.value.code == "INVALID_NAME"


def test_weights_by_name_are_a_bundle(hub):
    weights = collections.OrderedDict(w=b"abc")
    with pytest.raises(TypeError, match="not OrderedDict of them; use create_bundle"):
        hub.put("words:weights", weights)


def test_the_repr_of_an_error_has_its_code():
    assert repr(cuda_ipc.CudaIpcError("NOT_FOUND", "no")) == "CudaIpcError('NOT_FOUND', 'no')"
