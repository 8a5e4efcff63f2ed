"""Claims a worker's offer, and makes the channel for the client's requests.

A reply channel has one reader: the client that opens it first has the offer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._deadline import Deadline
from ..errors import CudaIpcError, CudaIpcTimeout
from .envelope import HELLO, Envelope
from .names import FoundOffer, request_name
from .plan import ClientPlan, ServiceFacts, parse_hello
from .window import slots_of

if TYPE_CHECKING:
    from ..channel_reader import ChannelReader
    from ..channel_writer import ChannelWriter
    from ..hub import Hub

_LOOK_S = 0.1


class ClientChannels(NamedTuple):
    worker: str
    requests: ChannelWriter
    replies: ChannelReader
    facts: ServiceFacts


def claim_offer(
    hub: Hub, offer: FoundOffer, plan: ClientPlan, deadline: Deadline
) -> ClientChannels:
    """Raises READERS_FULL if another client was faster; NOT_FOUND, PEER_GONE if the worker is gone;
    and the errors of `open_channel` and `create_channel`.
    """
    name = offer.name
    # The deadline in place of seconds goes on from call to call, and can be cancelled.
    limit: Any = deadline
    replies = hub.open_channel(name, start="oldest", stream=plan.stream, wait=False, timeout=limit)
    try:
        facts = _read_hello(replies, deadline)
        requests = hub.create_channel(
            request_name(name),
            facts.dtype,
            facts.shape,
            slots=slots_of(facts.depth),
            readers_max=1,
            meta_bytes_max=facts.meta_bytes_max,
            device=_device_of(replies) if plan.device is None else plan.device,
            sharing=plan.sharing,
            timeout=limit,
        )
    except BaseException:
        replies._leave()  # no work of a GPU uses it
        raise
    return ClientChannels(offer.worker, requests, replies, facts)


def _read_hello(replies: ChannelReader, deadline: Deadline) -> ServiceFacts:
    while True:
        deadline.attempt = f'connect to worker "{replies.name}"'
        deadline.check(lambda: "it has sent no hello")
        try:
            first = replies.next(_LOOK_S)
            break
        except CudaIpcTimeout:
            continue
    if first is None:
        raise CudaIpcError("PEER_GONE", f'Cannot connect to worker "{replies.name}": it was closed')
    replies._give_back(first, None)
    hello = Envelope(replies.name, first.meta)
    if hello.kind != HELLO:
        raise CudaIpcError(
            "CHANNEL_CORRUPT",
            f'Cannot connect to worker "{replies.name}": its first message is of kind {hello.kind}',
        )
    return parse_hello(replies.name, hello.json)


def _device_of(replies: ChannelReader) -> str:
    kind, ordinal = replies._parts.memory.device
    return "host" if kind == 1 else f"cuda:{ordinal}"
