"""The thread that receives, and that looks for the next hub if a connection ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable

from ._connection import Connection
from ._deadline import Deadline, GrowingPause
from ._fds import new_bell
from ._hub_socket import folder_owner
from ._leases import HeldLease, Names
from ._packets import ConnectionEnded
from ._reach import HubTarget, reach, try_connect, try_start
from .errors import CudaIpcError, Farewell

_FINAL = ("PROTOCOL_MISMATCH", "UNTRUSTED_PEER", "UNSAFE_RUNTIME_DIR", "SOCKET_PATH_TOO_LONG")
#: A connection that lived for this long counts as useful.
_LIVED_S = 1.0


class LinkThread:
    """The state of a link, and what its own thread does with it."""

    def __init__(
        self,
        target: HubTarget,
        reconnect: bool,
        reconnect_timeout: float,
        deadline: Deadline,
    ) -> None:
        self.path = target.path
        self._target = target
        self._reconnect = reconnect
        self._reconnect_timeout = reconnect_timeout
        self._changed = threading.Condition()
        self._leases: dict[int, HeldLease] = {}
        self.names = Names(self)  # type: ignore[arg-type]
        self._ready = True
        self._search: Deadline | None = None
        self._found = "none listens there"
        self.ended: CudaIpcError | None = None
        #: True in a child: shared words are the parent's to write.
        self.forked = False
        self.on_reconnect: list[Callable[[bool], object]] = []
        self.on_end: list[Callable[[CudaIpcError], object]] = []
        connection = reach(target, deadline)
        self._connection = connection
        self._session = connection.session
        with contextlib.ExitStack() as undo:
            undo.callback(connection.end, None)
            self._wake_fd = new_bell()
            undo.callback(os.close, self._wake_fd)
            # Readable once the link has ended for good: a sleep on a bell must end then.
            self._end_fd = new_bell()
            undo.pop_all()
        self._sleepers = 0
        self._thread = threading.Thread(target=self._run, name="cuda-ipc", daemon=True)

    def _end(self, reason: CudaIpcError) -> None:
        with self._changed:
            if self.ended is not None:
                return
            self.ended = reason
            self._ready = False
            leases, self._leases = list(self._leases.values()), {}
            search = self._search
            self._changed.notify_all()
            os.eventfd_write(self._wake_fd, 1)
            os.eventfd_write(self._end_fd, 1)
            if self._sleepers == 0:
                os.close(self._end_fd)
        if search is not None:
            search.cancel()
        for held in leases:
            held.lose()
        if reason.code != "CLOSED":
            for listener in self.on_end:
                with contextlib.suppress(Exception):
                    listener(reason)

    def tell_end(self, listener: Callable[[CudaIpcError], object]) -> None:
        with self._changed:
            reason = self.ended
            if reason is None:
                self.on_end.append(listener)
        if reason is not None and reason.code != "CLOSED":
            threading.Thread(target=listener, args=(reason,), daemon=True).start()

    def _run(self) -> None:
        # A signal must interrupt the thread that waits, which is the main one.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._serve()
        except BaseException as bug:
            # Nobody would answer those who wait.
            self._end(CudaIpcError("HUB_GONE", f"the thread of the connection failed: {bug!r}"))
            raise
        finally:
            self._connection.end(None)
            with self._changed:
                os.close(self._wake_fd)

    def _serve(self) -> None:
        since = time.monotonic()
        pauses = GrowingPause()
        while self.ended is None:
            connection = self._connection
            began = time.monotonic()
            self._receive(connection)
            if self.ended is not None:
                break
            with self._changed:
                self._ready = False
            cause = connection.ended
            if isinstance(cause, CudaIpcError) and _is_final(cause):
                self._end(cause)
            elif not self._reconnect:
                hung_up = CudaIpcError("HUB_GONE", f"the hub at {self.path} has hung up")
                self._end(cause if isinstance(cause, CudaIpcError) else hung_up)
            else:
                if time.monotonic() - began > _LIVED_S:
                    pauses = GrowingPause()
                    since = time.monotonic()
                self._come_back(since, pauses)

    def _receive(self, connection: Connection) -> None:
        poll = select.poll()
        with contextlib.suppress(ValueError):  # it has ended already
            poll.register(connection.socket, select.POLLIN)
        poll.register(self._wake_fd, select.POLLIN)
        while connection.ended is None and self.ended is None:
            poll.poll()
            if self.ended is None:
                connection.receive()

    def _come_back(self, since: float, pauses: GrowingPause) -> None:
        attempt = f"reconnect to the hub at {self.path}"
        wake = select.poll()
        wake.register(self._wake_fd, select.POLLIN)

        def pause(seconds: float) -> None:
            wake.poll(seconds * 1000)

        is_first = True
        while self.ended is None:
            left = since + self._reconnect_timeout - time.monotonic()
            if left <= 0 and not is_first:
                self._end(
                    CudaIpcError(
                        "HUB_GONE",
                        f"Cannot {attempt} within {self._reconnect_timeout:g} s: {self._found}",
                    )
                )
                return
            is_first = False
            self._search = Deadline(attempt, max(left, 0.01))
            try:
                connection = self._find(pause, self._search)
                if connection is None:
                    self._found = "none listens there"
                elif self._resume(connection):
                    return
            except ConnectionEnded:
                self._found = "it hung up"
            except CudaIpcError as wrong:
                if _is_final(wrong):
                    self._end(wrong)
                    return
                self._found = wrong.message
            except OSError as cause:
                self._found = str(cause)
            finally:
                self._search = None
            pause(pauses.next())

    def _find(self, pause: Callable[[float], object], search: Deadline) -> Connection | None:
        """The next hub. Starts one in a folder of this user, if the last one did not come back."""
        target = self._target
        found = try_connect(target, self._session, search, pause)
        if found is not None or not target.start or folder_owner(target.path) != os.geteuid():
            return found
        return try_start(target, self._session, search, False, pause)

    def _resume(self, connection: Connection) -> bool:
        assert self._search is not None
        try:
            named, lost = self._restore(connection, self._search)
        except BaseException as cause:
            connection.end(None)
            if isinstance(cause, ConnectionEnded) and isinstance(connection.ended, CudaIpcError):
                raise connection.ended from None
            raise
        with self._changed:
            if self.ended is not None:
                connection.end(None)
                return True
            self._connection = connection
            self._session = connection.session
            self._ready = connection.ended is None
            is_ready = self._ready
            # Given back meanwhile, after they had been named.
            late = [held for held in named if not self.holds(held)]
            self._changed.notify_all()
        for held in late:
            connection.post("release", {"lease": held.lease})
        for held in named:
            if held.is_drained:
                self._drain(connection, held)
            elif held.is_unsure and held.dropped:
                self.names.settle(held)
        for held in lost:
            held.lose()
        for listener in list(self.on_reconnect):
            with contextlib.suppress(Exception):
                listener(not lost)
        return is_ready

    def _restore(
        self, connection: Connection, deadline: Deadline
    ) -> tuple[list[HeldLease], list[HeldLease]]:
        """Names all leases that are held. Returns them, and those that the hub does not know."""
        with self._changed:
            known = sorted(self._leases.values(), key=lambda held: held.order)
        if not connection.resumed:
            with self._changed:
                lost = [held for held in known if self._leases.pop(held.lease, None) is not None]
            return [], lost
        brought: set[int] = set()
        named: list[HeldLease] = []
        lost = []
        for held in known:
            if not self.holds(held):
                continue
            if self._restore_one(held, brought, connection, deadline):
                named.append(held)
            else:
                with self._changed:
                    if self._leases.pop(held.lease, None) is not None:
                        lost.append(held)
        connection.call("restored", {}, deadline)
        return named, lost

    def _restore_one(
        self, held: HeldLease, brought: set[int], connection: Connection, deadline: Deadline
    ) -> bool:
        """False if the hub does not know the lease."""
        brings = held.role != "observer" and (held.is_part or held.object not in brought)
        try:
            lent = held.fds.share()
        except CudaIpcError:  # given back meanwhile
            return True
        try:
            return self._name(held, lent.fds if brings else (), brought, connection, deadline)
        finally:
            lent.close()

    def _name(
        self,
        held: HeldLease,
        fds: tuple[int, ...],
        brought: set[int],
        connection: Connection,
        deadline: Deadline,
    ) -> bool:
        while True:
            if fds and not held.is_part:
                brought.add(held.object)
            try:
                connection.call("restore", {"lease": held.lease}, deadline, fds)
                return True
            except CudaIpcError as refused:
                if refused.code == "NOT_FOUND":
                    return False
                if refused.code == "LIMIT_EXCEEDED":
                    deadline.check()
                    time.sleep(0.001)
                elif not fds or refused.code == "TIMEOUT":
                    raise
                else:
                    # The hub cannot take the memory. The lease is held all the same.
                    fds = ()

    def _drain(self, connection: Connection, held: HeldLease) -> None:
        """Gives the lease back once no other process has one."""

        def answered(failure: BaseException | None) -> None:
            # ABORTED: a later drain of the same object is answered.
            if isinstance(failure, CudaIpcError) and failure.code == "ABORTED":
                return
            with self._changed:
                if self._leases.get(held.lease) is not held:
                    return
                del self._leases[held.lease]
                self._changed.notify_all()
            # Ends the memory, and then the lease.
            held.lose()
            connection.post("release", {"lease": held.lease})

        connection.post("drain", {"object": held.object}, answered)

    def holds(self, held: HeldLease) -> bool:
        return self._leases.get(held.lease) is held


def _is_final(reason: CudaIpcError) -> bool:
    return isinstance(reason, Farewell) or reason.code in _FINAL
