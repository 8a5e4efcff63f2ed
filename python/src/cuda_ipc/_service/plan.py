"""Options of a service and of its clients, their checks, and the hello that states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._channel_parts import check_range, new_facts
from .._choices import DTypeLike, DTypeName, Sharing
from .._descriptors import ChannelFacts
from .._dtypes import DTYPES
from .._hub.arrays import slot_alignment
from .._protocol import (
    LIMIT_CHANNEL_META_BYTES,
    LIMIT_SERVICE_CONCURRENCY,
    LIMIT_SERVICE_DEPTH,
    LIMIT_SERVICE_LINKS,
    LIMIT_SERVICE_REPORT_BYTES,
    RANK_MAX,
)
from ..errors import CudaIpcError
from .envelope import ENVELOPE_BYTES
from .users import named_users
from .window import slots_of

if TYPE_CHECKING:
    from .._cuda_streams import Stream

#: The dtype and the shape, in elements, of the largest message.
MessageSpec = tuple[DTypeLike, int | Sequence[int]]
_VERSION = 1
#: A channel always has memory, even if its messages have only meta.
_NO_DATA: MessageSpec = ("uint8", 1)


class ServicePlan(NamedTuple):
    """The shape of both channels of each link of a worker."""

    request: ChannelFacts
    reply: ChannelFacts
    #: Whether replies have data besides their meta.
    has_reply_data: bool
    depth: int
    clients_max: int
    concurrency: int
    #: Seconds.
    claim_timeout: float
    #: The stream on which the handler works.
    stream: Stream | None
    #: The uids of users who may also be workers, if this is the first worker.
    workers: tuple[int, ...]


def service_plan(
    request: MessageSpec,
    reply: MessageSpec | None,
    depth: int | None,
    clients_max: int,
    concurrency: int,
    meta_bytes_max: int,
    claim_timeout: float,
    device: str,
    stream: object,
    workers: Mapping[str, Any] | None,
) -> ServicePlan:
    """Raises TypeError, ValueError, UNSUPPORTED_DTYPE."""
    check_range("clients_max", clients_max, 1, LIMIT_SERVICE_LINKS)
    check_range("concurrency", concurrency, 1, LIMIT_SERVICE_CONCURRENCY)
    check_range("meta_bytes_max", meta_bytes_max, 0, LIMIT_CHANNEL_META_BYTES - ENVELOPE_BYTES)
    if depth is None:
        depth = min(concurrency + 1, LIMIT_SERVICE_DEPTH)
    check_range("depth", depth, 1, LIMIT_SERVICE_DEPTH)
    if isinstance(claim_timeout, bool) or not isinstance(claim_timeout, (int, float)):
        raise TypeError(f"claim_timeout must be a number of seconds, not {claim_timeout!r}")
    if not claim_timeout > 0:
        raise ValueError(f"claim_timeout must be more than 0 seconds, not {claim_timeout!r}")
    # The worker's hello and error reports also travel in the meta of replies.
    reply_meta = max(meta_bytes_max, LIMIT_SERVICE_REPORT_BYTES)

    def facts(name: str, spec: MessageSpec, meta: int) -> ChannelFacts:
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise TypeError(f'{name} must be a dtype and a shape, such as ("float32", (2, 3))')
        dtype, shape = spec
        slots, meta = slots_of(depth), ENVELOPE_BYTES + meta
        return new_facts(dtype, shape, slots, 1, meta, "wait", "end", slot_alignment(device))

    return ServicePlan(
        facts("request", request, meta_bytes_max),
        facts("reply", _NO_DATA if reply is None else reply, reply_meta),
        reply is not None,
        depth,
        clients_max,
        concurrency,
        float(claim_timeout),
        _found_stream(stream, device),
        named_users(workers),
    )


def _found_stream(stream: object, device: str | None) -> Stream | None:
    """None if none was given. Raises TypeError, ValueError, and the errors of the driver.

    WHY at once: a handle may name the default stream of the context that is current on this thread.
    """
    if stream is None:
        return None
    from .._cuda_streams import GivenStreams

    kind, _, ordinal = device.partition(":") if isinstance(device, str) else ("", "", "")
    return GivenStreams(int(ordinal) if kind == "cuda" and ordinal.isdecimal() else None).find(
        stream
    )


def hello_of(plan: ServicePlan) -> dict[str, Any]:
    facts = plan.request
    return {
        "v": _VERSION,
        "depth": plan.depth,
        "request": {
            "dtype": facts.dtype.name,
            "shape": list(facts.shape),
            "metaBytesMax": facts.meta_bytes_max,
        },
    }


class ServiceFacts(NamedTuple):
    """How a client must make the channel for its requests."""

    depth: int
    dtype: DTypeName
    shape: tuple[int, ...]
    #: With the envelope.
    meta_bytes_max: int


def parse_hello(name: str, value: Any) -> ServiceFacts:
    """Raises PROTOCOL_MISMATCH."""
    found = _wrong_in(value)
    if found is not None:
        raise CudaIpcError(
            "PROTOCOL_MISMATCH",
            f'Cannot use worker "{name}": its hello does not follow version {_VERSION}: {found}',
        )
    request = value["request"]
    return ServiceFacts(
        value["depth"], request["dtype"], tuple(request["shape"]), request["metaBytesMax"]
    )


def _wrong_in(value: Any) -> str | None:
    if not isinstance(value, dict) or value.get("v") != _VERSION:
        return f"it is {value!r}"[:200]
    request = value.get("request")
    if not isinstance(request, dict):
        return "it describes no requests"
    shape = request.get("shape")
    if not isinstance(shape, list) or len(shape) > RANK_MAX:
        return f"shape is {shape!r}"[:200]
    if not all(_is_between(length, 0, 2**53 - 1) for length in shape):
        return f"shape is {shape!r}"[:200]
    if not isinstance(request.get("dtype"), str) or request["dtype"] not in DTYPES:
        return f"dtype is {request.get('dtype')!r}"[:200]
    if not _is_between(value.get("depth"), 1, LIMIT_SERVICE_DEPTH):
        return f"depth is {value.get('depth')!r}"[:200]
    if not _is_between(request.get("metaBytesMax"), ENVELOPE_BYTES, LIMIT_CHANNEL_META_BYTES):
        return f"metaBytesMax is {request.get('metaBytesMax')!r}"[:200]
    try:
        new_facts(request["dtype"], shape, 1, 1, request["metaBytesMax"], "wait", "end", 1)
    except ValueError as wrong:
        return str(wrong)[:200]
    return None


def _is_between(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


class ClientPlan(NamedTuple):
    policy: str
    retries_max: int
    workers_max: int
    device: str | None
    sharing: Sharing | None
    #: The stream that fills requests and reads replies.
    stream: Stream | None
    #: The uids of other users whose workers it takes.
    workers: tuple[int, ...]


def client_plan(
    policy: str,
    retries_max: int,
    workers_max: int,
    device: str | None,
    sharing: Sharing | None,
    stream: object,
    workers: Mapping[str, Any] | None,
) -> ClientPlan:
    """Raises TypeError, ValueError."""
    if policy not in ("retry", "fail"):
        raise ValueError(f'policy must be "retry" or "fail", not {policy!r}')
    check_range("retries_max", retries_max, 0, 2**31)
    check_range("workers_max", workers_max, 1, LIMIT_SERVICE_LINKS)
    found = _found_stream(stream, device)
    users = named_users(workers)
    return ClientPlan(policy, retries_max, workers_max, device, sharing, found, users)
