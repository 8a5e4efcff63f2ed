"""Packets with file descriptors on the hub's socket."""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

from ._deadline import Deadline
from ._fds import close_all
from ._hub_socket import check_peer
from ._json import check_levels, parse_json
from ._layout import INTEGER_MAX
from ._protocol import LIMIT_FDS, LIMIT_MESSAGE_BYTES, PROTOCOL_VERSION
from .errors import CudaIpcError, system_error

_CONTROL_BYTES = socket.CMSG_SPACE(LIMIT_FDS * array.array("i").itemsize)


#: Between attempts to send descriptors while too many are in flight.
_REST_S = 0.01


class ConnectionEnded(Exception):
    """The connection ended before the reply. Another one may carry the request out."""


class PacketSocket:
    """One thread at a time receives. Any thread may send."""

    def __init__(self, path: str, connected: socket.socket, trusted: frozenset[int]) -> None:
        """Takes over a socket that is connected to the hub. Raises UNTRUSTED_PEER."""
        self.path = path
        self.socket = connected
        try:
            self.hub_pid = check_peer(path, self.socket, trusted)
        except BaseException:
            self.socket.close()
            raise
        self.ended: BaseException | None = None
        # WHY reentrant: only its holder can release it, see `_release`.
        self._send_lock = threading.RLock()
        #: Packets that wait for room, or for the thread that sends.
        self._outbox: deque[bytes] = deque()

    def _packet(self) -> tuple[bytes, tuple[int, ...], bool]:
        arguments = (LIMIT_MESSAGE_BYTES, _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC)
        try:
            packet, control, flags, _ = self.socket.recvmsg(*arguments)
        except ConnectionResetError:  # reported once, ahead of what the hub said last
            packet, control, flags, _ = self.socket.recvmsg(*arguments)
        fds = array.array("i")
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if flags & socket.MSG_TRUNC:
            close_all(fds)
            raise CudaIpcError(
                "MESSAGE_TOO_LARGE", f"The hub at {self.path} sent too long a packet"
            )
        return packet, tuple(fds), bool(flags & socket.MSG_CTRUNC)

    def _send(self, packet: bytes, fds: Sequence[int], deadline: Deadline) -> None:
        rights = []
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        remaining = deadline.remaining
        try:
            if not self._send_lock.acquire(timeout=-1 if remaining is None else remaining):
                raise deadline.timed_out(self._silence(deadline))
            while True:
                deadline.check_cancelled()
                try:
                    if not self._send_outbox():
                        raise BlockingIOError
                    self.socket.sendmsg([packet], rights, socket.MSG_NOSIGNAL)
                    break
                except BlockingIOError:
                    poll = select.poll()
                    poll.register(self.socket, select.POLLOUT)
                    if not poll.poll(deadline.remaining_ms):
                        raise deadline.timed_out(self._silence(deadline)) from None
                except (BrokenPipeError, ConnectionResetError):
                    # The thread that receives finds the end, after the hub's last words.
                    break
                except OSError as cause:
                    if self.ended is not None:
                        raise ConnectionEnded from cause
                    if rest_in_flight(cause, deadline):
                        continue
                    raise system_error(deadline.attempt, cause) from cause
        finally:
            self._release()
        self._flush()

    def _send_later(self, packet: bytes) -> None:
        """Sends a packet before all later ones, without waiting.

        The hub answers each request. So without room `_flush` is called when an answer comes.
        """
        self._outbox.append(packet)
        self._flush()

    def _flush(self) -> None:
        """Sends what waits, as far as there is room."""
        # WHY again: what came while another call held the lock is left to that call.
        while self._outbox:
            try:
                if not self._send_lock.acquire(blocking=False) or not self._send_outbox():
                    return
            except OSError:  # the thread that receives finds the end
                return
            finally:
                self._release()

    def _release(self) -> None:
        """Releases the lock if this thread has it: a signal may have come just before or after."""
        with contextlib.suppress(RuntimeError):
            self._send_lock.release()

    def _send_outbox(self) -> bool:
        """False if there is no room. Call it with the lock held."""
        while self._outbox:
            packet = self._outbox.popleft()
            try:
                self.socket.sendmsg([packet], [], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._outbox.appendleft(packet)
                return False
        return True

    def _silence(self, deadline: Deadline) -> str:
        where = "" if self.path in deadline.attempt else f"; the hub is at {self.path}"
        state = _state_of(self.hub_pid)
        if state is None:
            return f"{silent_keeper(self.path) or 'the hub does not answer'}{where}"
        what = "is stopped" if state in ("T", "t") else "runs"
        return f"the hub (process {self.hub_pid}) does not answer: it {what}{where}"


def rest_in_flight(cause: OSError, deadline: Deadline) -> bool:
    """Rests if this user has too many descriptors in flight, which passes. Raises TIMEOUT."""
    if cause.errno != errno.ETOOMANYREFS:
        return False
    remaining = deadline.remaining
    if remaining == 0:
        raise deadline.timed_out(
            f"user {os.getuid()} has more file descriptors in flight than this process may open "
            "(ulimit -n): one of its processes sends some that nobody receives"
        ) from cause
    time.sleep(_REST_S if remaining is None else min(_REST_S, remaining))
    return True


def _state_of(pid: int) -> str | None:
    """None if it has ended, or cannot be seen."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
    return None if state in ("Z", "X") else state


def silent_keeper(path: str) -> str | None:
    """Says so if the hub has ended, and the keeper, which has its lock, starts no other one."""
    from ._locks import lock_holder

    pid = lock_holder(f"{path}.lock")
    if pid is None or _state_of(pid) is not None:
        return None
    return (
        f"the last hub (process {pid}) has ended, and its keeper, which has the lock, starts no "
        "other one: look whether the keeper is stopped"
    )


def parse_reply(packet: bytes) -> dict[str, Any]:
    try:
        reply = parse_json(packet, whole=True)
        check_levels(packet)
    except ValueError as wrong:
        raise CudaIpcError("INVALID_MESSAGE", f"The hub sent no JSON: {wrong}") from wrong
    version = reply.get("v") if isinstance(reply, dict) else None
    if isinstance(version, (int, float)) and version != PROTOCOL_VERSION:
        raise CudaIpcError("PROTOCOL_MISMATCH", f"The hub speaks version {version}")
    if (
        type(version) is not int
        or type(reply.get("id")) is not int
        or reply["id"] < 0
        or type(reply.get("ok")) is not bool
        or not isinstance(reply.get("result" if reply["ok"] else "error"), dict)
        or not (reply["ok"] or _is_error(reply["error"]))
    ):
        raise CudaIpcError("INVALID_MESSAGE", f"The hub sent {packet[:200]!r}")
    return cast("dict[str, Any]", reply)


def _is_error(told: dict[str, Any]) -> bool:
    return isinstance(told.get("code"), str) and isinstance(told.get("message"), str)


def checked_number(result: dict[str, Any], field: str) -> int:
    """A number that the hub gave to an object or a lease."""
    value = result.get(field)
    if type(value) is not int or not 1 <= value <= INTEGER_MAX:
        raise CudaIpcError("INVALID_MESSAGE", f"The hub sent {field} {value!r}")
    return value
