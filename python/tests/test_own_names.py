"""Errors of services name the service, and none of the channels that it makes."""

from __future__ import annotations

import os
import re
import signal

import pytest
from conftest import hub_of

import cuda_ipc

_LINK = re.compile(r":w[0-9a-z]+:\d+")
SIZES = {"request": ("int8", 1), "reply": ("int8", 1)}


def test_serve_names_the_service(own_hub):
    with cuda_ipc.connect(own_hub.socket) as hub:
        pid = hub_of(own_hub.socket)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(cuda_ipc.CudaIpcTimeout, match=r'"own\.names"') as caught:
                hub.serve("own.names", print, timeout=0.05, **SIZES)
        finally:
            os.kill(pid, signal.SIGCONT)
    assert not _LINK.search(caught.value.message)


def test_a_request_names_the_service(hub):
    with hub.serve("own.names", lambda request, reply: {}, clients_max=1, **SIZES):
        with hub.connect_service("own.names") as first:
            first.request(b"a").release()
            wrong = {"device": "cuda:99"}
            with hub.connect_service("own.names", **wrong) as client:
                with pytest.raises(cuda_ipc.CudaIpcTimeout) as caught:
                    client.request(b"a", timeout=0.5)
                assert not _LINK.search(caught.value.message)
            with pytest.raises((cuda_ipc.CudaIpcError, ValueError)) as caught:
                first.request(b"a", meta=b"m" * 300)
            assert not _LINK.search(str(caught.value))
            with pytest.raises((cuda_ipc.CudaIpcError, ValueError)) as caught:
                first.request(b"ab")
            assert not _LINK.search(str(caught.value))
