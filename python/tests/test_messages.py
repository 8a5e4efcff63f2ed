"""What the errors of common mistakes say."""

from __future__ import annotations

import pytest

import cuda_ipc


@pytest.mark.parametrize("wrong", [(2, 3), "float32", memoryview(b"12"), ("float32",)])
def test_a_bundle_of_something_else_than_dtypes_and_shapes_says_what_is_wanted(hub, wrong):
    with pytest.raises(TypeError, match=r"'w' must be given as \(dtype, shape\)"):
        hub.create_bundle("messages", {"w": wrong})


def test_put_of_many_arrays_names_create_bundle(hub):
    with pytest.raises(TypeError, match=r"use create_bundle\(\)"):
        hub.put("messages", {"w": b"1234"})


def test_a_name_that_a_bundle_lacks_is_answered_with_the_nearest(hub):
    with hub.create_bundle("messages", {"weight": ("uint8", 1)}) as bundle:
        with pytest.raises(KeyError, match="did you mean 'weight'"):
            bundle["weigth"]
        assert "weigth" not in bundle and bundle.get("weigth") is None


def test_the_repr_of_an_error_has_its_code(hub):
    with pytest.raises(cuda_ipc.CudaIpcError) as missing:
        hub.open("messages:none", wait=False)
    assert repr(missing.value).startswith("CudaIpcError('NOT_FOUND', 'Cannot open")


def test_an_object_of_another_kind_has_the_right_article(hub):
    with hub.put("messages", b"1234"):
        with pytest.raises(cuda_ipc.CudaIpcError, match=r"it is an array; use open\(\)"):
            hub.open_bundle("messages")


def test_a_path_in_place_of_a_name_says_how_a_file_is_loaded(hub):
    for call in (hub.open, hub.open_bundle):
        with pytest.raises(cuda_ipc.CudaIpcError, match="cuda-ipc put NAME FILE") as wrong:
            call("/x/v1.safetensors")
        assert wrong.value.code == "INVALID_NAME"


@pytest.mark.parametrize("meta", [b"[[", b"\xef\xbb\xbf{}", b"\xff", b'"\n"'])
def test_meta_that_is_said_to_be_json_and_is_not_is_an_error_of_the_channel(hub, monkeypatch, meta):
    monkeypatch.setattr("cuda_ipc._message_format.encode_json", lambda *_, **__: meta)
    with hub.create_channel("odd-meta", "uint8", 1) as writer:
        with hub.open_channel("odd-meta") as reader:
            writer.send(bytes([1]), meta={})
            with reader.next() as message:
                with pytest.raises(cuda_ipc.CudaIpcError, match="bytes are not JSON") as wrong:
                    _ = message.json
                assert (wrong.value.code, message.meta) == ("CHANNEL_CORRUPT", meta)
