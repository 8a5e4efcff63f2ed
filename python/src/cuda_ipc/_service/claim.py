"""Claims a worker's offer, makes the channel for the client's requests, and waits for its reader.

A reply channel has one reader: the client that opens it first has the offer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .._deadline import Deadline
from .._protocol import DEFAULT_MS_SERVICE_CLAIM, DEFAULT_MS_SERVICE_HELLO
from .._waiting import pauses
from ..errors import CudaIpcError, CudaIpcTimeout
from .envelope import HELLO, Envelope
from .names import FoundOffer, request_name
from .plan import ClientPlan, ServiceFacts, parse_hello
from .users import untrusted
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
    hub: Hub,
    offer: FoundOffer,
    plan: ClientPlan,
    deadline: Deadline,
    trusted: frozenset[int],
) -> ClientChannels:
    """Raises READERS_FULL if another client was faster; NOT_FOUND, PEER_GONE if the worker is gone;
    UNTRUSTED_PEER if its user is not `trusted`; TIMEOUT if it sends no hello, or does not open the
    channel of the requests; and the errors of `open_channel` and `create_channel`.
    """
    name = offer.name
    # The deadline in place of seconds goes on from call to call, and can be cancelled.
    limit: Any = deadline
    replies = hub.open_channel(name, start="oldest", stream=plan.stream, wait=False, timeout=limit)
    try:
        # WHY only now: while it is open here, its name cannot pass to another user unseen.
        uid = hub.inspect(name, limit)[0].owner_uid
        if uid not in trusted:
            raise untrusted(offer.worker, uid)
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
        try:
            _await_reader(requests, replies, deadline)
        except BaseException:
            requests._leave()
            raise
    except BaseException:
        replies._leave()  # no work of a GPU uses it
        raise
    return ClientChannels(offer.worker, requests, replies, facts)


def _read_hello(replies: ChannelReader, deadline: Deadline) -> ServiceFacts:
    limit = deadline.shorter(DEFAULT_MS_SERVICE_HELLO / 1000)
    while True:
        limit.check(lambda: "it has sent no hello")
        try:
            first = replies.next(_LOOK_S)
            break
        except CudaIpcTimeout:
            continue
    if first is None:
        raise _closed(replies)
    replies._give_back(first, None)
    hello = Envelope(replies.name, first.meta)
    if hello.kind != HELLO:
        raise CudaIpcError(
            "CHANNEL_CORRUPT",
            f'Cannot connect to worker "{replies.name}": its first message is of kind {hello.kind}',
        )
    return parse_hello(replies.name, hello.json)


def _await_reader(requests: ChannelWriter, replies: ChannelReader, deadline: Deadline) -> None:
    """Until the worker has attached to the requests, nobody would answer them."""
    limit = deadline.shorter(DEFAULT_MS_SERVICE_CLAIM / 1000)
    for pause in pauses():
        if requests.readers > 0:
            return
        if replies._is_over():
            raise _closed(replies)
        limit.check(
            lambda: "it has not opened its requests. If it runs as another user, pass `sharing`"
        )
        requests._check_link()
        time.sleep(pause)


def _closed(replies: ChannelReader) -> CudaIpcError:
    return CudaIpcError("PEER_GONE", f'Cannot connect to worker "{replies.name}": it was closed')


def _device_of(replies: ChannelReader) -> str:
    kind, ordinal = replies._parts.memory.device
    return "host" if kind == 1 else f"cuda:{ordinal}"
