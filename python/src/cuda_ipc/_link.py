"""The link to the hub over any number of connections.

A thread of its own receives. If a connection ends, that thread looks for the next hub, registers
what this process still holds, and lets the requests under way be asked again.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _fds
from ._connection import Answered, Connection, Keeper, Reply
from ._deadline import Cancellation, Deadline
from ._leases import HeldLease
from ._link_thread import LinkThread
from ._packets import ConnectionEnded, silent_keeper
from ._protocol import DEFAULT_MS_GOODBYE
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._legacy import OwnedMemory, SharedMemory

#: Requests that concern one hub alone, and are not asked again.
_NOT_REPEATED = ("stop", "restart")

_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link(LinkThread):
    """Any thread may ask."""

    def start(self) -> None:
        """Starts the thread that receives."""
        _links.add(self)
        try:
            self._thread.start()
        except BaseException as cause:
            self._end(CudaIpcError("CLOSED", "the thread of the connection did not start"))
            if isinstance(cause, RuntimeError):
                # No thread has begun. After a signal one has, and gives the rest back.
                self._connection.end(None)
                os.close(self._wake_fd)
            raise

    def ask(
        self,
        op: str,
        fields: dict[str, Any],
        deadline: Deadline,
        fds: Sequence[int] = (),
        keeper: Keeper | None = None,
    ) -> Reply:
        """Asks, over as many connections as it takes."""
        sent = 0
        while True:
            deadline.check_cancelled()
            connection = self._when_ready(deadline)
            try:
                return connection.ask(op, fields, deadline, fds, keeper)
            except ConnectionEnded:
                if op in _NOT_REPEATED:
                    self._wait_for_end(deadline)
                    raise self.ended or CudaIpcError(
                        "HUB_GONE", f"Cannot {deadline.attempt}: the connection has ended"
                    ) from None
            except CudaIpcError as refused:
                # The first attempt was carried out, and its answer was lost.
                if sent > 0 and op == "remove" and refused.code == "NOT_FOUND":
                    return Reply({}, None)
                raise
            sent += 1

    def request(self, op: str, fields: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        return self.ask(op, fields, deadline).result

    def hold(self, held: HeldLease) -> None:
        with self._changed:
            # Another thread has closed it meanwhile. Nobody would give the descriptors back.
            self.check("hold a lease")
            if held.lease in self._leases:
                raise CudaIpcError(
                    "INVALID_MESSAGE", f"Cannot hold lease {held.lease}: the hub gave it before"
                )
            self._leases[held.lease] = held

    def release(self, held: HeldLease) -> None:
        with self._changed:
            if self._leases.get(held.lease) is not held:
                return
            self.names.forget(held)
            drains = held.owned is not None
            if drains:
                if held.is_drained:
                    return
                held.is_drained = True
            else:
                del self._leases[held.lease]
                self._changed.notify_all()
            connection = self._connection if self._ready else None
        if drains:
            held.created = held.shared = None
            if connection is not None and self.ended is None:
                self._drain(connection, held)
            return
        # Without a connection nothing is sent: the next one does not name the lease.
        if connection is not None and self.ended is None:
            connection.post("release", {"lease": held.lease})
        held.created = held.shared = None
        held.fds.close()

    def publish(self, held: HeldLease, deadline: Deadline) -> None:
        """Lets others open an object of this client."""
        deadline.check_cancelled()
        self._when_ready(deadline)
        # WHY before: a signal may end this at any line. Up to here nothing was sent.
        held.is_unsure = held.replaces
        try:
            self.request("publish", {"object": held.object}, deadline)
        except CudaIpcError as failure:
            if failure.code not in ("TIMEOUT", "ABORTED"):
                held.is_unsure = False
            raise
        self.names.given_to(held)

    def post(self, op: str, fields: dict[str, Any], answered: Answered | None = None) -> None:
        """Sends a request whose reply nobody waits for. Without a connection nothing is sent."""
        if self._is_ready():
            self._connection.post(op, fields, answered)

    def check(self, attempt: str) -> None:
        if self.ended is not None:
            raise type(self.ended)(self.ended.code, f"Cannot {attempt}: {self.ended.message}")

    def close(self, wait: bool = True, at_exit: bool = False) -> None:
        """Says goodbye, so that the hub frees everything at once.

        Memory that only its owner keeps alive may be in use, here or by others. With `wait` this
        waits a little for its end. Then it leaves those leases to the end of the process. Without
        `wait` it does not wait for the hub's answer either, except `at_exit`.
        """
        if wait and threading.current_thread() is not self._thread:
            self._wait_for_memory()
        with self._changed:
            if self.ended is not None:
                return
            is_ready = self._ready
            connection = self._connection
            held_now = list(self._leases.values())
            in_use = [held for held in held_now if not at_exit and _is_memory_in_use(held)]
        for held in held_now:
            if held.on_goodbye is not None:
                held.on_goodbye()
        if in_use:
            for held in held_now:
                if held not in in_use:
                    self.release(held)
            for held in in_use:
                if held.owned is not None:
                    _left_to_the_end.append(held.owned)
                    held.owned = None
        elif is_ready and not (wait or at_exit):
            connection.post("bye", {})
        elif is_ready:
            # WHY its own: a call that was cancelled says goodbye, too.
            limit = Deadline("leave the hub", DEFAULT_MS_GOODBYE / 1000, Cancellation())
            with contextlib.suppress(CudaIpcError, ConnectionEnded):
                connection.ask("bye", {}, limit)
        self._end(CudaIpcError("CLOSED", f"the connection to the hub at {self.path} was closed"))
        if threading.current_thread() is not self._thread:
            self._thread.join(DEFAULT_MS_GOODBYE / 1000)

    def _wait_for_memory(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self.ended is not None
                    or not any(_is_memory_in_use(held) for held in self._leases.values())
                ),
                timeout=DEFAULT_MS_GOODBYE / 1000,
            )

    def _when_ready(self, deadline: Deadline) -> Connection:
        if self._is_ready():
            return self._connection
        self.check(deadline.attempt)
        with self._changed:
            deadline.on_cancel(self._notify_all)
            try:
                while self.ended is None and not self._is_ready():
                    deadline.check(
                        lambda: (
                            f"the connection to the hub at {self.path} ended, and no other was "
                            f"made: {silent_keeper(self.path) or self._found}"
                        )
                    )
                    self._changed.wait(deadline.remaining)
            finally:
                deadline.on_cancel(None)
            self.check(deadline.attempt)
            return self._connection

    def begin_sleep(self) -> int | None:
        """A descriptor that becomes readable when the link ends; None if it has ended."""
        with self._changed:
            if self.ended is not None:
                return None
            self._sleepers += 1
            return self._end_fd

    def end_sleep(self) -> None:
        with self._changed:
            self._sleepers -= 1
            if self.ended is not None and self._sleepers == 0:
                os.close(self._end_fd)

    def _is_ready(self) -> bool:
        return self._ready and self._connection.ended is None and self.ended is None

    def _notify_all(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait_for_end(self, deadline: Deadline) -> None:
        """The thread that receives is about to say how the connection has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended is not None, timeout=0.2)

    # ------------------------------------------------ fork

    def after_fork(self) -> None:
        """In a child: the session is the parent's. What is mapped stays usable."""
        if self.ended is not None:
            self.forked = True
            return
        self.forked = True
        self._changed = threading.Condition()
        self.ended = CudaIpcError(
            "CLOSED", "this process was forked after connect(); call connect() in the child"
        )
        self._ready = False
        with contextlib.suppress(OSError):
            self._connection.socket.close()
        # WHY not written: the parent has the same eventfds.
        for fd in (self._wake_fd, self._end_fd):
            os.close(fd)
        for held in self._leases.values():
            held.fds.close()
        self._leases = {}


#: Memory that others may still have open. It stays until the process ends.
_left_to_the_end: list[OwnedMemory | SharedMemory] = []


def _is_memory_in_use(held: HeldLease) -> bool:
    return held.is_drained or held.lasts_with_memory


def _after_fork_in_child() -> None:
    _fds.reset_after_fork()
    for link in list(_links):
        link.after_fork()


@atexit.register
def _say_goodbye() -> None:
    # Later the thread that receives is gone, and nobody would get the answer.
    for link in list(_links):
        link.close(wait=False, at_exit=True)


os.register_at_fork(after_in_child=_after_fork_in_child)
