"""Whose workers a client of a service takes."""

from __future__ import annotations

import os

import pytest
from conftest import LIMIT, until, until_times_out

from cuda_ipc._deadline import Deadline
from cuda_ipc._service import search
from cuda_ipc._service.users import trusted_users

MESSAGE = ("float32", 4)

pytestmark = pytest.mark.usefixtures("ends_in_time")


def nothing(request, reply):
    """A handler that answers without data."""


def test_the_users_are_its_own_and_root_and_that_of_the_hub(hub):
    users = trusted_users(hub._link, Deadline("ask for the users", LIMIT))
    assert users == {os.geteuid(), 0}


def test_a_worker_of_another_user_is_taken_only_if_its_user_is_named(hub, monkeypatch):
    # Everybody here is of one user. So the client is told that its own is another one.
    monkeypatch.setattr(search, "trusted_users", lambda link, deadline: frozenset({12_345}))
    own = os.geteuid()
    with hub.serve("of-whom", nothing, request=MESSAGE):
        with hub.connect_service("of-whom") as client:
            until_times_out(
                rf"UNTRUSTED_PEER: .+ it is of user {own}\. .+workers={{\"uid\": {own}}}",
                lambda timeout: client.request(meta=1, timeout=timeout),
            )
            assert client.workers == 0
        for uid in (own, [1, own]):
            with hub.connect_service("of-whom", workers={"uid": uid}) as client:
                client.request(meta=1, timeout=LIMIT / 4).release()


def test_the_first_worker_names_users_whose_processes_may_be_workers(hub):
    def users():
        entries = hub._link.request("list", {}, Deadline("list the offers", LIMIT))["objects"]
        return [entry.get("serviceUsers") for entry in entries]

    named = {"uid": [12342, 12343]}
    with hub.serve("for-whom", nothing, request=MESSAGE, workers=named):
        assert users() == [[os.geteuid(), 12342, 12343]]
        with hub.serve("for-whom", nothing, request=MESSAGE, workers={"uid": 1}):
            assert users() == 2 * [[os.geteuid(), 12342, 12343]]
    until("the offers have ended", lambda: users() == [])
    with hub.serve("for-whom", nothing, request=MESSAGE):
        assert users() == [None]


@pytest.mark.parametrize(
    "workers", [1001, {}, {"uid": "bob"}, {"uid": True}, {"uid": [1, None]}, {"gid": 1}]
)
def test_workers_of_a_wrong_type_are_refused(hub, workers):
    with pytest.raises(TypeError, match="workers"):
        hub.connect_service("of-whom", workers=workers)
    with pytest.raises(TypeError, match="workers"):
        hub.serve("of-whom", nothing, request=MESSAGE, workers=workers)


@pytest.mark.parametrize("uid", [-1, 2**32 - 1, [1] * 65])
def test_users_out_of_range_are_refused(hub, uid):
    with pytest.raises(ValueError, match="workers uid"):
        hub.connect_service("of-whom", workers={"uid": uid})
    with pytest.raises(ValueError, match="workers uid"):
        hub.serve("of-whom", nothing, request=MESSAGE, workers={"uid": uid})
