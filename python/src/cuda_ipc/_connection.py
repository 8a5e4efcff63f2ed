"""One connection to the hub: packets with file descriptors, requests and their replies."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ._deadline import Deadline
from ._fds import close_all
from ._json import encode_json
from ._layout import INTEGER_MAX
from ._leases import HeldLease
from ._packets import ConnectionEnded, PacketSocket, checked_number, parse_reply
from ._protocol import DEFAULT_MS_EXPLANATION, LIMIT_MESSAGE_BYTES, PROTOCOL_VERSION
from ._version import VERSION
from .errors import FAREWELLS, CudaIpcError, CudaIpcTimeout, Farewell, error

# The field names `open` and `create` give something that must go back if nobody wants it.
_GAINS = ("open", "create")

Result = dict[str, Any]
#: Keeps what a reply grants. It runs on the thread that receives, before the next packet.
Keeper = Callable[[Result, tuple[int, ...]], HeldLease]
#: Called with the failure of a request that was posted, or None.
Answered = Callable[[BaseException | None], object]


class Reply(NamedTuple):
    result: Result
    #: What the keeper made of it.
    kept: Any


class _Pending:
    __slots__ = ("abandoned", "answered", "failure", "keeper", "number", "op", "ready", "reply")

    def __init__(self, op: str, keeper: Keeper | None) -> None:
        self.op = op
        #: 0 until it has one.
        self.number = 0
        self.keeper = keeper
        self.answered: Answered | None = None
        self.ready = threading.Event()
        self.reply: Reply | None = None
        self.failure: BaseException | None = None
        self.abandoned = False


class Connection(PacketSocket):
    """Any thread may ask. One thread at a time receives."""

    def __init__(self, path: str, connected: socket.socket, trusted: frozenset[int]) -> None:
        """Takes over a socket that is connected to the hub. Raises UNTRUSTED_PEER."""
        super().__init__(path, connected, trusted)
        self.session = 0
        self.resumed = False
        # WHY reentrant: a collection of garbage, or a handler of a signal, may give a lease back.
        self._lock = threading.RLock()
        self._pending: dict[int, _Pending] = {}
        self._numbers = itertools.count(1)

    # ------------------------------------------------ the thread that receives

    def hello(self, program: str, session: int | None, deadline: Deadline) -> None:
        shown = program.encode("utf-16-le", "replace")[:256].decode("utf-16-le", "ignore")
        fields: dict[str, Any] = {"client": {"version": VERSION, "program": shown}}
        if session is not None:
            fields["resume"] = {"session": session}
        result = self.call("hello", fields, deadline)
        self.session = checked_number(result, "session")
        self.resumed = result.get("resumed") is True

    def call(
        self, op: str, fields: dict[str, Any], deadline: Deadline, fds: Sequence[int] = ()
    ) -> Result:
        """Asks, and receives until the reply is there. For the thread that receives."""
        pending = _Pending(op, None)
        self._begin(pending, fields, deadline, fds)
        while not pending.ready.is_set():
            self._await_readable(deadline)
            self.receive()
        return _outcome(pending).result

    def _await_readable(self, deadline: Deadline) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        # A cancellation hangs up, which ends the poll.
        deadline.on_cancel(self._hang_up)
        try:
            if not poll.poll(deadline.remaining_ms):
                raise deadline.timed_out(self._silence(deadline))
        finally:
            deadline.on_cancel(None)

    def _hang_up(self) -> None:
        # The thread that waited may have closed it meanwhile.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def receive(self) -> None:
        """Handles the packets that are there."""
        while self.ended is None:
            try:
                packet, fds, lost = self._packet()
            except BlockingIOError:
                # The hub has read requests, so there is room for others.
                self._flush()
                return
            except OSError as cause:
                self.end(cause)
                return
            except CudaIpcError as wrong:
                self.end(wrong)
                return
            if packet == b"":
                self.end(None)
                return
            try:
                self._handle(packet, fds, lost)
            except CudaIpcError as final:
                self.end(final)

    def _handle(self, packet: bytes, fds: tuple[int, ...], lost: bool) -> None:
        taken = False
        try:
            reply = parse_reply(packet)
            number = reply["id"]
            if not reply["ok"]:
                refused = reply["error"]
                code, message = refused["code"], refused["message"]
                if number == 0 and code in FAREWELLS:
                    raise Farewell(code, message)
            with self._lock:
                pending = self._pending.pop(number, None)
                wanted = pending is not None and not pending.abandoned
                if wanted and reply["ok"] and not lost and pending.keeper is not None:  # type: ignore[union-attr]
                    taken = True
            if pending is None:
                if not reply["ok"]:
                    raise error(code, message)
                raise CudaIpcError(
                    "INVALID_MESSAGE", f"The hub answered request {number}, which was never sent"
                )
            if not reply["ok"]:
                pending.failure = error(code, message)
            elif taken or not lost:
                self._settle(pending, reply["result"], fds if taken else ())
            else:
                self._give_back(pending.op, reply["result"])
                pending.failure = CudaIpcError(
                    "TOO_MANY_FDS",
                    f"Cannot {pending.op}: file descriptors were lost on the way, because this "
                    "process has too many open",
                )
            pending.ready.set()
            if pending.answered is not None:
                pending.answered(pending.failure)
        finally:
            if not taken:
                close_all(fds)

    def _settle(self, pending: _Pending, result: Result, fds: tuple[int, ...]) -> None:
        """Takes over the descriptors."""
        kept = None
        if pending.keeper is not None:
            try:
                kept = pending.keeper(result, fds)
            except CudaIpcError as wrong:
                pending.failure = wrong
                self._give_back(pending.op, result)
                return
        with self._lock:
            if not pending.abandoned:
                pending.reply = Reply(result, kept)
                return
        if kept is not None:
            kept.release()
        else:
            self._give_back(pending.op, result)

    def end(self, cause: BaseException | None) -> None:
        """No more packets come. All requests under way fail with `ConnectionEnded`."""
        with self._lock:
            if self.ended is not None:
                return
            self.ended = cause if cause is not None else ConnectionEnded()
            left = list(self._pending.values())
            self._pending.clear()
        self.socket.close()
        for pending in left:
            pending.failure = ConnectionEnded()
            pending.ready.set()

    # ------------------------------------------------ any thread

    def ask(
        self,
        op: str,
        fields: dict[str, Any],
        deadline: Deadline,
        fds: Sequence[int] = (),
        keeper: Keeper | None = None,
    ) -> Reply:
        """Sends a request and waits for the reply that another thread receives."""
        pending = _Pending(op, keeper)
        try:
            self._begin(pending, fields, deadline, fds)
            deadline.on_cancel(pending.ready.set)
            pending.ready.wait(deadline.remaining)
            if pending.reply is not None or pending.failure is not None:
                return _outcome(pending)
        except BaseException:  # a signal
            self._abandon(pending)
            raise
        finally:
            deadline.on_cancel(None)
        deadline.check_cancelled(lambda: self._abandon(pending))
        raise deadline.timed_out(self._why_late(pending, deadline))

    def post(
        self,
        op: str,
        fields: dict[str, Any],
        answered: Answered | None = None,
    ) -> None:
        """Sends a request whose reply nobody waits for: now, or once there is room for it.

        `answered` is called with its failure, or None, on the thread that receives. It is not
        called if the connection ends before.
        """
        pending = _Pending(op, None)
        pending.answered = answered
        pending.abandoned = True
        # Without a connection: the next one does not name it, so the hub gives it back.
        with contextlib.suppress(ConnectionEnded):
            self._begin(pending, fields, None, ())

    def _begin(
        self,
        pending: _Pending,
        fields: dict[str, Any],
        deadline: Deadline | None,
        fds: Sequence[int],
    ) -> None:
        """Sends a request. Without a deadline it does not wait for room."""
        number = next(self._numbers)
        document = {"v": PROTOCOL_VERSION, "id": number, "op": pending.op, **fields}
        packet = encode_json(document, "replace")
        with self._lock:
            if self.ended is not None:
                raise ConnectionEnded
            pending.number = number
            self._pending[number] = pending
        if deadline is None:
            self._send_later(packet)
            return
        try:
            if len(packet) > LIMIT_MESSAGE_BYTES:
                raise CudaIpcError(
                    "MESSAGE_TOO_LARGE",
                    f"Cannot {deadline.attempt}: the request has {len(packet)} bytes, at most "
                    f"{LIMIT_MESSAGE_BYTES} are possible",
                )
            self._send(packet, fds, deadline)
        except (CudaIpcError, ConnectionEnded):
            # WHY not after a signal: it may have been sent, and its answer comes.
            with self._lock:
                self._pending.pop(number, None)
            raise

    def _abandon(self, pending: _Pending, cancels: bool = True) -> int | None:
        """Nobody waits for the reply any more. What it grants goes back."""
        with self._lock:
            pending.abandoned = True
            number = pending.number if pending.number in self._pending else None
            reply, pending.reply = pending.reply, None
        if reply is not None and reply.kept is not None:
            reply.kept.release()
        if cancels and number is not None and pending.op == "open":
            self.post("cancel", {"request": number})
        return number

    def _why_late(self, pending: _Pending, deadline: Deadline) -> str | None:
        """Gives the request up, and asks the hub what an open waits for."""
        number = self._abandon(pending, cancels=False)
        if number is None or pending.op != "open":
            return self._silence(deadline)
        limit = Deadline("ask", DEFAULT_MS_EXPLANATION / 1000)
        try:
            reply = self.ask("cancel", {"request": number, "explain": True}, limit)
        except CudaIpcTimeout:
            return self._silence(deadline)
        except (CudaIpcError, ConnectionEnded):
            return None
        found = reply.result.get("found")
        return f"{found}; the hub is at {self.path}" if isinstance(found, str) else None

    def _give_back(self, op: str, result: Result) -> None:
        lease = result.get("lease")
        if op in _GAINS and type(lease) is int and 1 <= lease <= INTEGER_MAX:
            self.post("release", {"lease": lease})


def _outcome(pending: _Pending) -> Reply:
    if pending.failure is not None:
        raise pending.failure
    assert pending.reply is not None
    return pending.reply
