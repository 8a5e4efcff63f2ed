"""A worker's side of one link: receives requests and cancellations, and sends each outcome.

The link ends when the client closes its side, dies, or breaks the protocol.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..channel_message import Message
from ..errors import CudaIpcError
from .envelope import CANCEL, FAILED, REQUEST, Envelope, encode_envelope
from .envelope import REPLY as REPLY_KIND
from .messages import ServiceMessage, ServiceRequest
from .promise import Promise
from .receiver import Inbox
from .reply import Reply, ReplyOptions
from .report import failure_report

if TYPE_CHECKING:
    from ..channel_reader import ChannelReader
    from ..channel_slot import Slot
    from ..channel_writer import ChannelWriter
    from .worker import Service


class _Outgoing(NamedTuple):
    """An outcome without data, which waits for its turn."""

    raw: bytes
    #: None stands for that of the service.
    stream: Any = None


class WorkerLink:
    """Takes over both channels. `lock` guards them, and all state of the service."""

    def __init__(self, service: Service, requests: ChannelReader, replies: ChannelWriter) -> None:
        self.open = True
        self.lock: Any = service._lock
        self.has_reply_data = service._plan.has_reply_data
        self._service = service
        self._requests = requests
        self._replies = replies
        #: The stream that reads requests and fills replies; None if the CPU waits.
        self._stream = service._plan.stream
        self._is_on_gpu = requests._is_on_gpu or replies._is_on_gpu
        for channel in (requests, replies):
            service._hub._handles.discard(channel)  # this link closes them
        #: Requests without an answer.
        self._under_way: dict[int, ServiceRequest] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._turn_is_taken = False
        self._turns: deque[Promise[None]] = deque()
        requests.on_drop = lambda _: None  # each request is given back when it was answered
        self._inbox = Inbox(requests, self.lock, self._on_message, self._on_end)

    @property
    def waits_for_gpu(self) -> bool:
        """Whether the end of a request waits for the GPU."""
        return self._is_on_gpu and self._stream is None

    def start(self) -> None:
        """Receives requests from here on."""
        self._service._receiver.add(self._inbox)

    def expire(self, now: float) -> float | None:
        """Gives up requests whose deadline has passed. Returns the next deadline."""
        with self.lock:
            requests = list(self._under_way.values())
        next_deadline: float | None = None
        for request in requests:
            if request.deadline is None or request.given_up is not None:
                continue
            if request.deadline <= now:
                self._service._give_up(self, request, "TIMEOUT", "its deadline has passed")
            elif next_deadline is None or request.deadline < next_deadline:
                next_deadline = request.deadline
        return next_deadline

    # ------------------------------------------------ outcomes

    def send(self, request: ServiceRequest, reply: Reply, options: ReplyOptions) -> None:
        """Sends a finished reply. Nothing if the request was answered or the link has ended.

        Raises MESSAGE_TOO_LARGE, TypeError, ValueError.
        """
        if not isinstance(options, dict):
            kind = type(options).__name__
            raise TypeError(f"a handler returns None, or a dict with meta and so on, not {kind}")
        unknown = set(options) - {"meta", "shape", "byte_length", "stream"}
        if unknown:
            raise TypeError(f"a handler returned {sorted(unknown)[0]!r}, which is no option")
        has_data = reply._is_loaned
        if not has_data and ("shape" in options or options.get("byte_length", 0) > 0):
            raise TypeError(
                "Cannot send a reply of that size: it has no slot. Get one with reply.loan()."
            )
        raw = self._encode(REPLY_KIND, request.number, options.get("meta"))
        stream = self._replies._given_stream(options.get("stream")) or self._stream
        if stream is None and self._is_on_gpu:
            # WHY here: with the lock held all other requests would wait, too.
            self._replies._parts.memory.finish()
        with self.lock:
            if not self.open or self._under_way.get(request.number) is not request:
                return
            if has_data:
                reply._commit(raw, options)
            else:
                self._outbox.append(_Outgoing(raw, stream))
            del self._under_way[request.number]
        self.flush()

    def answer(
        self,
        request: ServiceRequest,
        kind: int,
        error: BaseException | None = None,
        reply: Reply | None = None,
    ) -> None:
        """Sends an outcome without a reply. Nothing if there is one, or the link has ended."""
        try:
            request.release()
        except CudaIpcError as wrong:
            self.fail(wrong)
        with self.lock:
            if not self.open or self._under_way.pop(request.number, None) is not request:
                return
            report = failure_report(error) if kind == FAILED and error is not None else None
            raw = self._encode(kind, request.number, report)
            if reply is None or not self._answer_in(reply, raw):
                self._outbox.append(_Outgoing(raw))
        self.flush()

    def _answer_in(self, reply: Reply, raw: bytes) -> bool:
        """Sends an outcome in the slot that the handler has loaned, if there is one.

        WHY: a slot that a stream may write to would be passed over. The client has not reckoned
        with a message more, and the answer could wait until it releases another reply.
        """
        if not reply._is_loaned:
            reply._close()
            return False
        try:
            reply._commit(raw, {"byte_length": 0})
        except CudaIpcError as wrong:
            self.fail(wrong)
        return True

    def _encode(self, kind: int, number: int, meta: Any) -> bytes:
        # Reports of failures may be longer than the meta of replies.
        parts = self._replies._parts.facts if kind != REPLY_KIND else self._service._plan.request
        limit = parts.meta_bytes_max
        return encode_envelope(self._replies.name, kind, number, meta, limit)

    # ------------------------------------------------ turns: a channel lends one slot at a time

    def take_turn(self, turn: Promise[None]) -> None:
        """Resolves it when it is the caller's turn; `end_turn` passes it on."""
        with self.lock:
            if self.open and self._turn_is_taken:
                self._turns.append(turn)
                return
            if self.open:
                self._turn_is_taken = True
        if self.open:
            turn.resolve(None)
        else:
            turn.reject(self._gone("its client is gone"))

    def end_turn(self) -> None:
        self._flush_in_turn()

    def try_loan(self, is_open: bool) -> Slot | None:
        """None if a stream of the client still reads from the slot. Raises CLOSED, PEER_GONE."""
        with self.lock:
            if not self.open:
                raise self._gone("its client is gone")
            if not is_open:
                raise CudaIpcError("CLOSED", "Cannot reply: the request was answered already")
            return self._replies.try_loan(stream=self._stream)

    def flush(self) -> None:
        """Sends what waits, if nobody has the turn."""
        with self.lock:
            if self._turn_is_taken or not self._outbox:
                return
            self._turn_is_taken = True
        self._flush_in_turn()

    def _flush_in_turn(self) -> None:
        """Sends what waits, and passes the turn on."""
        while True:
            with self.lock:
                try:
                    self._send_outbox()
                except CudaIpcError as wrong:
                    self._outbox.clear()
                    self.fail(wrong)
                if not self._turns:
                    self._turn_is_taken = False
                    # A stream of the client still reads from the slot. It rings no bell.
                    is_stuck = self.open and len(self._outbox) > 0
                    break
                turn = self._turns.popleft()
            if turn.resolve(None):
                return
        if is_stuck:
            self._service._look_again()

    def _send_outbox(self) -> None:
        while self.open and self._outbox:
            stream = self._outbox[0].stream or self._stream
            slot = self._replies.try_loan(stream=stream)
            if slot is None:
                return
            raw = self._outbox.popleft().raw
            slot._commit(raw, None, 0, stream)

    def fail(self, wrong: CudaIpcError) -> None:
        """An answer could not be sent."""
        if wrong.code == "DEVICE_LOST":
            # The link stays open: closing it would tell the client that nothing was begun.
            self._service._on_lost()
        else:
            self.close(f"an answer could not be sent: {wrong.message}")

    # ------------------------------------------------ the thread that receives

    def _on_message(self, message: Message) -> None:
        """Raises CHANNEL_CORRUPT for a message that no client sends."""
        name = self._requests.name
        envelope = Envelope(name, message.meta)
        with self.lock:
            found = self._under_way.get(envelope.number)
        if envelope.kind == CANCEL:
            with self.lock:
                self._requests._give_back(message, None)
            if found is not None:
                self._service._give_up(self, found, "ABORTED", "its client cancelled it")
            return
        if envelope.kind != REQUEST or found is not None:
            what = (
                f"number {envelope.number} is open already"
                if envelope.kind == REQUEST
                else f"its kind is {envelope.kind}"
            )
            raise CudaIpcError("CHANNEL_CORRUPT", f'Cannot accept a request of "{name}": {what}')
        request = ServiceRequest(message, envelope, self)
        with self.lock:
            self._under_way[request.number] = request
        self._service._on_request(self, request)

    def release(self, message: ServiceMessage, stream: Any) -> None:
        reader, taken = self._requests, message._message
        by = reader._given_stream(stream) or self._stream
        if by is None and self._is_on_gpu and not taken.closed:
            reader._parts.memory.finish()
        with self.lock:
            if message._is_released:
                return
            message._is_released = True
            if self.open:
                reader._give_back(taken, by)

    def is_ready(self, message: Message) -> bool:
        with self.lock:
            return message.ready

    def _on_end(self, reason: CudaIpcError | None) -> None:
        if reason is not None and reason.code == "DEVICE_LOST":
            # As in `fail`.
            self._service._on_lost()
        else:
            self.close("its client closed the link" if reason is None else reason.message)

    def close(self, found: str) -> None:
        """Ends both channels, and gives up the requests that are being handled."""
        with self.lock:
            if not self.open:
                return
            self.open = False
            self._inbox.stop()
            requests = list(self._under_way.values())
            self._under_way.clear()
            self._outbox.clear()
            turns, self._turns = list(self._turns), deque()
        for turn in turns:
            turn.reject(self._gone(found))
        for request in requests:
            self._service._give_up(self, request, "PEER_GONE", found)
        self._service._receiver.remove(self._inbox, self._close_channels)
        self._service._on_link_end(self)

    def _close_channels(self) -> None:
        try:
            self._service._closings.close(self._requests)
        finally:
            self._service._leave(self._replies)

    def _gone(self, found: str) -> CudaIpcError:
        return CudaIpcError("PEER_GONE", f"Cannot reply: {found}")


def new_lock() -> Any:
    return threading.RLock()
