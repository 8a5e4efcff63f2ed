"""A client's side of one link: sends requests to one worker, and receives their outcomes.

The link ends when the worker closes its side or dies. Replies that are held stay valid until they
are released.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._deadline import Deadline
from .._waiting import SlotCopy, pauses
from ..channel_message import Message
from ..channel_slot import Slot
from ..errors import CudaIpcError
from .claim import ClientChannels
from .client_call import Ask, Call, Outcome, outcome_of, refuse_coroutine, report_of
from .envelope import (
    CANCEL,
    FAILED,
    REFUSED,
    REPLY,
    REQUEST,
    Envelope,
    encode_envelope,
    monotonic_micros,
)
from .held_replies import HeldReplies
from .messages import HeldReply, ServiceMessage, SlotToFill
from .promise import Blocking, Steps
from .receiver import Inbox, Receiver
from .window import LinkWindow

if TYPE_CHECKING:
    from .client import ServiceClient


class ClientLink:
    """Takes over both channels. `lock` guards them, and all state of the client."""

    def __init__(self, client: ServiceClient, channels: ClientChannels, receiver: Receiver) -> None:
        self.worker = channels.worker
        self.open = True
        self._client = client
        self._lock = client._lock
        self._receiver = receiver
        self._requests = channels.requests
        self._replies = channels.replies
        self._meta_bytes_max = channels.facts.meta_bytes_max
        self._window = LinkWindow(channels.facts.depth)
        #: The stream that fills requests and reads replies; None if the CPU waits.
        self._stream = client._plan.stream
        for channel in (channels.requests, channels.replies):
            client._hub._handles.discard(channel)  # this link closes them
        self._is_on_gpu = channels.replies._is_on_gpu or channels.requests._is_on_gpu
        #: Committed requests whose callers still wait.
        self._calls: dict[int, Call] = {}
        self._cancelled: deque[int] = deque()
        self._turn_is_taken = False
        self._last_number = 0
        # The worker accepts no more requests.
        self._is_leaving = False
        #: Ended, and no reply of it is held.
        self.is_settled = False
        self._held = HeldReplies(self)
        self._inbox = Inbox(self._replies, self._lock, self._on_message, self._on_end)

    def start(self) -> None:
        self._receiver.add(self._inbox)

    @property
    def waits_for_gpu(self) -> bool:
        return self._is_on_gpu and self._stream is None

    @property
    def load(self) -> int:
        """Requests of this client that the worker has yet to answer."""
        return self._window.under_way + self._turn_is_taken

    @property
    def has_room(self) -> bool:
        is_free = self.open and not self._is_leaving and not self._turn_is_taken
        return is_free and self._window.can_send

    def reserve(self) -> None:
        """Reserves room for one request. Call `send` or `give_back` afterwards."""
        self._turn_is_taken = True

    def give_back(self) -> None:
        self._end_turn()

    @property
    def held(self) -> int:
        """Replies that the program holds."""
        return self._window.held

    @property
    def channel(self) -> str:
        """The name of the channel of replies, which the worker owns."""
        return self._replies.name

    def send(self, call: Call, ask: Ask, deadline: Deadline) -> Steps[bool]:
        """Sends a request, for which room was reserved. False if the link has ended meanwhile.

        Raises what `fill` raises, and the errors of a slot's `commit`.
        """
        slot: Slot | None = None
        stream = None if ask.is_copied else self._stream
        passed_over = 0
        try:
            for pause in pauses():
                with self._lock:
                    if not self.open:
                        return False
                    slot = self._requests.try_loan(stream=stream)
                    passed_over = self._passed_over
                if slot is not None:
                    break
                # A stream of the worker still reads from the slot. It rings no bell.
                deadline.check(lambda: "streams of its worker still use the next slot")
                yield pause
            assert slot is not None
            try:
                if ask.fill is not None:
                    yield from self._fill(ask, slot)
            except CudaIpcError:
                if self.open:
                    raise
                return False
            deadline.check(lambda: "the request was not filled in time")
            if self.waits_for_gpu:
                # WHY here: with the lock held all other requests would wait, too.
                yield Blocking(self._requests._parts.memory.finish)
            with self._lock:
                if not self.open:
                    return False
                self._commit(call, ask, slot, deadline)
            return True
        finally:
            try:
                with self._lock:
                    if slot is not None:
                        slot.close()
                        self._window.passed_over(self._passed_over - passed_over)
            finally:
                self._end_turn()

    def _fill(self, ask: Ask, slot: Slot) -> Steps[None]:
        assert ask.fill is not None
        fill, to_fill = ask.fill, SlotToFill(slot, self._lock)
        if not (ask.is_copied and self._requests._is_on_gpu):
            refuse_coroutine(fill(to_fill))
            return
        copy = SlotCopy(lambda: fill(to_fill))
        try:
            yield Blocking(copy)
        except BaseException as failure:
            self._requests._leaves(copy, failure)
            raise

    def _commit(self, call: Call, ask: Ask, slot: Slot, deadline: Deadline) -> None:
        number = self._last_number + 1
        until = 0
        if deadline.remaining is not None:
            until = monotonic_micros() + math.ceil(min(deadline.remaining * 1e6, 2**53))
        name, limit = self._requests.name, self._meta_bytes_max
        raw = encode_envelope(name, REQUEST, number, ask.meta, limit, until)
        call.number = number
        self._calls[number] = call
        ring = self._requests._ring
        before = ring.sequence
        try:
            if ask.fill is None:
                slot._commit(raw, None, 0, self._stream)
            else:
                slot._commit(raw, ask.shape, ask.byte_length, self._stream)
        finally:
            # A signal may have ended it after the worker saw the request.
            if ring.sequence == before:
                del self._calls[number]
            else:
                self._last_number = number
                self._window.sent(number)

    @property
    def _passed_over(self) -> int:
        """Slots that were given back while a stream might still write to them."""
        return self._requests._ring.position - self._requests._ring.sequence

    def give_up(self, call: Call) -> None:
        """The caller waits no more. The request is cancelled."""
        with self._lock:
            number = call.number or 0  # no request has 0
            was_open = self._calls.pop(number, None) is not None
            if was_open:
                self._cancelled.append(number)
        if was_open:
            self.send_cancellations()
        elif not call.outcome.reject(RuntimeError("nobody waits for this reply")):
            # The reply came in this very moment. Nobody else would release it.
            outcome = call.outcome.value
            if outcome is not None and outcome.kind == "reply":
                self._held.drop(outcome.value._message)

    def send_cancellations(self) -> None:
        is_stuck = False
        with self._lock:
            while self.open and not self._turn_is_taken and self._cancelled:
                number = self._cancelled[0]
                if self._window.is_open(number):
                    slot = self._requests.try_loan()
                    if slot is None:
                        is_stuck = True
                        break
                    self._window.cancel(number)
                    raw = encode_envelope(
                        self._requests.name, CANCEL, number, None, self._meta_bytes_max
                    )
                    slot._commit(raw, None, 0, None)
                self._cancelled.popleft()
        if is_stuck:
            self._client._look_again()

    def _end_turn(self) -> None:
        with self._lock:
            self._turn_is_taken = False
        self.send_cancellations()
        self._client._on_room()

    # ------------------------------------------------ the thread that receives

    def _on_message(self, message: Message) -> None:
        """Raises CHANNEL_CORRUPT for a message that no worker sends."""
        name = self._replies.name
        envelope = Envelope(name, message.meta)
        with self._lock:
            position = self._window.answered(envelope.number)
            call = self._calls.pop(envelope.number, None)
        if position is None:
            raise CudaIpcError(
                "CHANNEL_CORRUPT",
                f'Cannot accept a reply of worker "{name}": no request {envelope.number} is open',
            )
        if envelope.kind == REFUSED:
            self._is_leaving = True
        if envelope.kind == REPLY and call is not None:
            self._held.add(message, position)
            reply = HeldReply(message, envelope, self)
            if not call.outcome.resolve(Outcome("reply", reply)):
                self._held.give_back(message)
        else:
            report = report_of(envelope) if envelope.kind == FAILED else None
            self._held.give_back(message, position)
            outcome = outcome_of(name, envelope.kind, report)
            if call is not None:
                call.outcome.resolve(outcome)
        self._client._on_room()

    def release(self, message: ServiceMessage, stream: Any) -> None:
        assert isinstance(message, HeldReply)
        self._held.release(message, stream)

    def is_ready(self, message: Message) -> bool:
        with self._lock:
            return message.ready

    def _on_end(self, reason: CudaIpcError | None) -> None:
        # A worker that closes its side has answered each request that it began.
        if reason is None:
            self._end(lambda call: call.outcome.resolve(Outcome("elsewhere")))
        elif reason.code == "DEVICE_LOST":
            self._end(lambda call: call.outcome.reject(reason))
        else:
            self._end(lambda call: call.outcome.resolve(Outcome("gone", reason)))

    def close(self) -> None:
        """Ends the link, and each reply of it that is held."""
        closed = CudaIpcError("CLOSED", "Cannot wait for a reply: the service client was closed")
        self._end(lambda call: call.outcome.reject(closed))
        self._settle()

    def _end(self, tell: Callable[[Call], object]) -> None:
        with self._lock:
            if not self.open:
                return
            self.open = False
            self._inbox.stop()
            self._cancelled.clear()
            calls = list(self._calls.values())
            self._calls.clear()
        self._receiver.remove(self._inbox, self._close_requests)
        self._client._on_link_end(self)
        for call in calls:
            tell(call)
        self._settle_if_free()

    def _close_requests(self) -> None:
        self._client._closings.close(self._requests)

    def _settle_if_free(self) -> None:
        """Replies that are held were answered, so their channel stays open until then."""
        with self._lock:
            is_free = self._window.held == 0
        if is_free:
            self._settle()

    def _settle(self) -> None:
        with self._lock:
            if self.is_settled:
                return
            self.is_settled = True
        self._receiver.call(self._close_replies)
        self._client._on_link_settled(self)

    def _close_replies(self) -> None:
        self._client._closings.close(self._replies)
