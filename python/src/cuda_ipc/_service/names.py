"""The names of a service's channels.

Replies use `NAME:w<worker>:<n>`, and requests the same with `:req`. No name is used for a second
link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from .._descriptors import check_name
from .._protocol import LIMIT_NAME_BYTES
from ..errors import CudaIpcError

if TYPE_CHECKING:
    from .promise import Steps

_Request = TypeVar("_Request", bound="Callable[..., Steps[Any]]")
_REQUESTS = ":req"
#: The longest suffix after the service's name.
_SUFFIX_BYTES_MAX = 64
_REST = re.compile(r"([0-9a-z]{1,24}):(\d{1,15})(:req)?", re.ASCII)


class FoundOffer(NamedTuple):
    """An offer of a worker that no client has claimed yet, judging by its name."""

    worker: str
    name: str


def check_service_name(name: str) -> str:
    """Raises INVALID_NAME."""
    check_name(name)
    limit = LIMIT_NAME_BYTES - _SUFFIX_BYTES_MAX
    if len(name) > limit:
        raise CudaIpcError(
            "INVALID_NAME",
            f'Cannot use "{name}" as the name of a service: it has {len(name)} bytes, wanted at '
            f"most {limit}",
        )
    return name


def new_worker_id() -> str:
    """A worker id that no other worker has."""
    return f"{os.getpid():x}{os.urandom(8).hex()}"


def reply_name(service: str, worker: str, number: int) -> str:
    return f"{offer_prefix(service)}{worker}:{number}"


def request_name(reply: str) -> str:
    return f"{reply}{_REQUESTS}"


def of_service(wrong: BaseException, service: str) -> None:
    """Replaces the names of a service's channels in a message by the service and the worker.

    No user has given them.
    """
    if isinstance(wrong, CudaIpcError) and offer_prefix(service) in wrong.message:
        link = rf'"{re.escape(service)}:(w[0-9a-z]{{1,24}}):\d{{1,15}}(?:{_REQUESTS})?"'
        wrong.args = (re.sub(link, rf'"{service}" (worker \1)', wrong.message, flags=re.ASCII),)


def names_service(request: _Request) -> _Request:
    """A step of a client whose errors name its service, and none of the service's channels."""

    def named(client: Any, *options: Any) -> Steps[Any]:
        try:
            return (yield from request(client, *options))
        except CudaIpcError as wrong:
            of_service(wrong, client.name)
            raise

    return cast("_Request", named)


def offer_prefix(service: str) -> str:
    """The prefix of all offers of a service."""
    return f"{service}:w"


def workers_among(service: str, names: Iterable[str]) -> set[str]:
    """The workers that have a channel of the service among these names."""
    return {parts[1] for name in names if (parts := _parts(service, name)) is not None}


def offers_among(service: str, names: Iterable[str]) -> list[FoundOffer]:
    """The newest offer of each worker that has no request channel among these names."""
    known = set(names)
    newest: dict[str, tuple[int, str]] = {}
    for name in known:
        parts = _parts(service, name)
        if parts is None or parts[3] is not None or request_name(name) in known:
            continue
        worker, number = parts[1], int(parts[2])
        if number > newest.get(worker, (-1, ""))[0]:
            newest[worker] = (number, name)
    return [FoundOffer(worker, name) for worker, (_, name) in newest.items()]


def _parts(service: str, name: str) -> re.Match[str] | None:
    prefix = offer_prefix(service)
    return _REST.fullmatch(name[len(prefix) :]) if name.startswith(prefix) else None
