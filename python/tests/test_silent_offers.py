"""Offers that say nothing, or say hello and read no requests, hold up no other worker."""

from __future__ import annotations

import contextlib

import pytest
from conftest import LIMIT, code, until_times_out

from cuda_ipc._service.envelope import HELLO, encode_envelope

MESSAGE = ("float32", 4)
REQUEST = {"dtype": "float32", "shape": [4], "metaBytesMax": 280}

pytestmark = pytest.mark.usefixtures("ends_in_time")


@contextlib.contextmanager
def offers(hub, name, count, says):
    """Offers of as many workers, whose names come before those of workers."""
    with contextlib.ExitStack() as stack:
        made = []
        for n in range(count):
            label = f"{name}:w0{n}:0"
            ring = {"slots": 4, "readers_max": 1, "meta_bytes_max": 1100}
            offer = stack.enter_context(hub.create_channel(label, *MESSAGE, **ring))
            made.append(offer)
            if says == "hello":
                hello = {"v": 1, "depth": 2, "request": REQUEST}
                offer.loan()._commit(encode_envelope(label, HELLO, 0, hello, 1100), None, 0, None)
        yield made


@pytest.mark.parametrize("says", ["nothing", "hello"])
def test_an_offer_that_says_nothing_more_gets_no_request_and_holds_up_no_other(hub, says):
    name = f"silent-{says}"
    with (
        offers(hub, name, 8, says),
        hub.serve(name, lambda request, reply: {"meta": "served"}, request=MESSAGE),
        hub.connect_service(name) as client,
    ):
        for _ in range(4):
            with client.request(bytes(16), timeout=LIMIT / 4) as reply:
                assert reply.json == "served"
        assert client.workers == 1


def test_a_silent_offer_does_not_keep_a_client_from_the_others_that_may_use_one_only(hub):
    with (
        offers(hub, "silent-one", 1, "nothing"),
        hub.serve("silent-one", lambda request, reply: {"meta": "served"}, request=MESSAGE),
        hub.connect_service("silent-one", workers_max=1) as client,
        client.request(meta=1, timeout=LIMIT / 4) as reply,
    ):
        assert reply.json == "served"


def test_the_error_of_a_request_names_a_silent_offer(hub):
    with offers(hub, "silent", 1, "nothing"), hub.connect_service("silent") as client:
        until_times_out(
            "within 1 s: it has sent no hello",
            lambda timeout: client.request(meta=1, timeout=timeout),
        )


def test_an_offer_is_given_up_as_soon_as_its_worker_ends(hub):
    with (
        offers(hub, "silent-end", 1, "hello") as [offer],
        hub.connect_service("silent-end", workers_max=1) as client,
    ):
        assert code(lambda: client.request(meta=1, timeout=0.1)) == "TIMEOUT"
        offer.close()
        with (
            hub.serve("silent-end", lambda request, reply: {"meta": "served"}, request=MESSAGE),
            client.request(meta=1, timeout=LIMIT / 4) as reply,
        ):
            assert reply.json == "served"
