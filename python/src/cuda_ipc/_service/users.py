"""The users whose workers a client takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._deadline import Deadline
from .._hub_socket import peer_of
from .._protocol import LIMIT_SERVICE_USERS
from ..errors import CudaIpcError

if TYPE_CHECKING:
    from .._link import Link

_ROOT = 0
_UID_MAX = 2**32 - 2


def named_users(workers: Mapping[str, Any] | None) -> tuple[int, ...]:
    """The uids that the option `workers` names. Raises TypeError, ValueError."""
    if workers is None:
        return ()
    if not isinstance(workers, Mapping) or set(workers) != {"uid"}:
        raise TypeError(f'workers must be such as {{"uid": 1001}}, not {workers!r}')
    given = workers["uid"]
    uids = list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]
    for uid in uids:
        if type(uid) is not int:
            raise TypeError(f"workers uid must be a number or several, not {uid!r}")
        if not 0 <= uid <= _UID_MAX:
            raise ValueError(f"workers uid must be from 0 to {_UID_MAX}, not {uid}")
    if len(uids) > LIMIT_SERVICE_USERS:
        raise ValueError(
            f"workers uid has {len(uids)} users, over the limit of {LIMIT_SERVICE_USERS}"
        )
    return tuple(uids)


def trusted_users(link: Link, deadline: Deadline) -> frozenset[int]:
    """The uids of this process's user, of root and of the hub's user, as the hub numbers them.

    WHY the hub is asked: in a user namespace of its own this process sees other numbers than the
    hub, which says whose an object is.
    """
    session, here = link._session, os.geteuid()
    after = {"after": session - 1} if session > 1 else {}
    clients = link.request("clients", after, deadline)["clients"]
    own = next((entry["uid"] for entry in clients if entry["session"] == session), here)
    # The number of the hub's user, too, is one of this process's namespace.
    hub = {peer_of(link._connection.socket)[1]} if own == here else set()
    return frozenset({own, _ROOT} | hub)


def untrusted(worker: str, uid: int) -> CudaIpcError:
    return CudaIpcError(
        "UNTRUSTED_PEER",
        f'Cannot use worker "{worker}": it is of user {uid}. To take workers of this user, pass '
        f'workers={{"uid": {uid}}}.',
    )
