"""The name of a service is its user's while its only worker makes another offer."""

from __future__ import annotations

import threading

import pytest
from conftest import LIMIT, code, until

from cuda_ipc._service.names import FoundOffer
from cuda_ipc._service.search import _best_first
from cuda_ipc.errors import CudaIpcError

MESSAGE = ("float32", 4)

pytestmark = pytest.mark.usefixtures("ends_in_time")


class Offers:
    """Holds up every offer of a hub's workers but the first, until `go` is set."""

    def __init__(self, hub, monkeypatch, fails=0):
        self.names: list[str] = []
        self.go = threading.Event()
        self._make = hub._new_channel
        self._fails = fails
        monkeypatch.setattr(hub, "_new_channel", self._held)

    def _held(self, name, *args, **kwargs):
        if kwargs.get("workers") is None:
            return self._make(name, *args, **kwargs)
        self.names.append(name)
        if len(self.names) > 1:
            assert self.go.wait(LIMIT)
            if len(self.names) <= 1 + self._fails:
                raise CudaIpcError("LIMIT_EXCEEDED", "no room")
        return self._make(name, *args, **kwargs)


def kept(hub):
    """The names of channels that are not of requests."""
    return [info.name for info in hub.list() if not info.name.endswith(":req")]


@pytest.mark.parametrize("fails", [0, 1])
def test_a_worker_keeps_the_name_while_it_replaces_an_offer(hub, monkeypatch, fails):
    offers = Offers(hub, monkeypatch, fails)
    with hub.serve("kept", lambda request, reply: None, request=MESSAGE):
        (first,) = offers.names
        try:
            hub.open_channel(first).close()
            until("the worker makes another offer", lambda: len(offers.names) == 2)
            assert kept(hub) == [first]
        finally:
            offers.go.set()
        until("only the last offer is there", lambda: kept(hub) == offers.names[-1:] != [first])
        assert len(offers.names) == 2 + fails


def test_a_worker_keeps_the_name_while_its_only_client_leaves(hub, monkeypatch):
    offers = Offers(hub, monkeypatch)
    with hub.serve("left", lambda request, reply: None, request=MESSAGE, clients_max=1) as service:
        try:
            with hub.connect_service("left") as client:
                client.request(meta=1, timeout=LIMIT / 4).release()
                assert kept(hub) == offers.names
            until("the worker makes another offer", lambda: len(offers.names) == 2)
            assert service.clients == 0
            assert kept(hub) == offers.names[:1]
        finally:
            offers.go.set()
        until("only the next offer is there", lambda: kept(hub) == offers.names[1:])


def test_an_offer_is_of_its_first_client_alone(hub, monkeypatch):
    offers = Offers(hub, monkeypatch)
    with hub.serve("claimed", lambda request, reply: None, request=MESSAGE):
        (first,) = offers.names
        try:
            hub.open_channel(first).close()
            assert code(lambda: hub.open_channel(first, wait=False)) == "READERS_FULL"
        finally:
            offers.go.set()
        with hub.connect_service("claimed") as client:
            client.request(meta=1, timeout=LIMIT / 4).release()


def test_users_take_turns():
    offers = [FoundOffer(worker, f"s:w{worker}:0") for worker in ("a1", "a2", "a3", "b1", "c1")]
    owners = {offer.name: int(offer.worker[0], 16) for offer in offers}
    order = [offer.worker for offer in _best_first(offers, owners, {"a1", "c1"})]
    assert order == ["b1", "a2", "a3", "a1", "c1"]
