"""The reply to one request while the handler makes it.

The slot is loaned only when the handler asks for it: a channel loans one slot at a time, and a slow
handler must not hold up the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from .._closing import OfChannel
from .._deadline import NO_DEADLINE
from .._waiting import pauses
from ..channel_slot import Slot
from ..errors import CudaIpcError
from .messages import SlotToFill
from .promise import Promise, Steps, Wait, run, run_async

if TYPE_CHECKING:
    from .worker_link import WorkerLink


class ReplyOptions(TypedDict, total=False):
    """What a handler may return: the meta, and `shape` or `byte_length` of a shorter reply."""

    meta: Any
    #: In elements.
    shape: int | Sequence[int]
    byte_length: int
    #: The reply is ready once this stream has done its work so far; by default that of the service.
    stream: Any


class Reply(OfChannel):
    """Belongs to the handler of one request."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link
        self._slot: Slot | None = None
        self._has_turn = False
        self._is_open = True

    def loan(self) -> SlotToFill:
        """Loans the slot to fill. It is sent when the handler returns.

        Other replies to the same client wait until then. Without a loan the reply has only meta.
        With the service's `stream`, that stream waits for streams of the client that still read
        from the slot; otherwise the CPU waits. Raises PEER_GONE if the client is gone, CLOSED;
        TypeError if the service has no `reply`; and the errors of the GPU.
        """
        return run(self._lend())

    async def loan_async(self) -> SlotToFill:
        """As `loan`, for asyncio."""
        return await run_async(self._lend())

    def _lend(self) -> Steps[SlotToFill]:
        link = self._link
        if not link.has_reply_data:
            raise TypeError(
                "Cannot loan a slot: this service replies with meta only. Give serve() the "
                "argument reply."
            )
        if self._slot is not None:
            return SlotToFill(self._slot, link.lock)
        turn: Promise[None] = Promise()
        link.take_turn(turn)
        try:
            yield Wait(turn, NO_DEADLINE)
        except BaseException:
            if not turn.reject(RuntimeError("nobody waits for this turn")):
                link.end_turn()
            raise
        self._has_turn = True
        try:
            # A slot is free, but a stream of the client may still read from it.
            for pause in pauses():
                slot = link.try_loan(self._is_open)
                if slot is not None:
                    self._slot = slot
                    return SlotToFill(slot, link.lock)
                yield pause
            raise AssertionError("pauses never end")
        except BaseException:
            self._close()
            raise

    @property
    def _is_loaned(self) -> bool:
        return self._slot is not None and not self._slot.closed

    def _commit(self, raw: bytes, options: ReplyOptions) -> None:
        """Sends the slot that was loaned. Call it with the link's lock held."""
        assert self._slot is not None
        shape, byte_length = options.get("shape"), options.get("byte_length")
        self._slot._commit(raw, shape, byte_length, options.get("stream"))
        self._close()

    def _close(self) -> None:
        """Gives an unsent slot back, and passes the turn on. The second time it does nothing."""
        failure: CudaIpcError | None = None
        with self._link.lock:
            self._is_open = False
            slot, has_turn = self._slot, self._has_turn
            self._has_turn = False
            if slot is not None:
                try:
                    slot.close()
                except CudaIpcError as wrong:  # its stream has failed
                    failure = wrong
        if has_turn:
            self._link.end_turn()
        if failure is not None:
            self._link.fail(failure)
