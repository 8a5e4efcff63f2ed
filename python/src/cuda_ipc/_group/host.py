"""Rank 0 of a group: owns its name and memory, and admits one process for each other rank.

A thread of its own keeps the name, and refuses latecomers until the group is closed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
import weakref

from .._deadline import Deadline
from .._fds import close_all, new_bell
from .._hub_socket import peer_of
from .._locks import SocketClaim, listen_at
from .._protocol import (
    DEFAULT_MS_PEER_SILENCE,
    LIMIT_PEER_CLIENTS,
    LIMIT_PEER_REQUEST_BYTES,
)
from ..errors import CudaIpcError, coded, system_error
from .admission import Address, Admitted, admission
from .members import Member, own_member, ranks_with_pidfd
from .messages import encode, refusal, send_with


class GroupHost:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._claim: SocketClaim | None = None
        with coded(f"form {address.label}"):
            self._listener = socket.socket(
                socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )
        self._is_bound = False
        try:
            self._wake_fd = new_bell()
        except BaseException:
            self._listener.close()
            raise
        self._changed = threading.Condition()
        self._admitted: dict[int, Admitted] = {}
        self._members: list[Member] | None = None
        #: When a member closed its connection after the group was complete, by rank.
        self._hung_up: dict[int, float] = {}
        #: Clients that have sent nothing yet, and until when they may be silent.
        self._silent: dict[int, tuple[socket.socket, float]] = {}
        self._joined: dict[int, socket.socket] = {}
        self._is_closed = False
        self._pidfds_are_taken = False
        #: Whether the thread has begun. It then gives everything back.
        self._runs = False
        _hosts.add(self)
        self._thread = threading.Thread(target=self._run, name="cuda-ipc group", daemon=True)

    def listen(self) -> None:
        """Takes the name. Close the host also if this fails. Raises NAME_TAKEN if it is in use."""
        path = self._address.path
        self._claim = SocketClaim.try_make(path)
        if self._claim is None:
            raise CudaIpcError(
                "NAME_TAKEN", f"Cannot form {self._address.label}: another group uses {path}"
            )
        try:
            self._is_bound = True
            listen_at(self._listener, path, LIMIT_PEER_CLIENTS)
        except OSError as cause:
            raise system_error(f"listen at {path}", cause) from cause
        self._thread.start()

    def assemble(self, memory: int, deadline: Deadline) -> tuple[list[Member], dict[int, int]]:
        """Waits for all members, and sends each the memory.

        Returns the members in the order of their ranks, and pidfds of the others, which the caller
        closes.
        """
        with self._changed:
            deadline.on_cancel(self._wake)
            try:
                while len(self._admitted) < self._address.size - 1:
                    deadline.check(self.missing)
                    self._changed.wait(deadline.remaining)
            finally:
                deadline.on_cancel(None)
            members = [own_member(), *(self._admitted[rank].member for rank in self._ranks())]
            self._members = members
            self._pidfds_are_taken = True
        pidfds = {rank: admitted.pidfd for rank, admitted in self._admitted.items()}
        try:
            self._tell(members, pidfds, memory, deadline)
        except BaseException:
            close_all(pidfds.values())
            raise
        return members, pidfds

    def _tell(
        self, members: list[Member], pidfds: dict[int, int], memory: int, deadline: Deadline
    ) -> None:
        answer = encode({"ok": True, "members": [member.document() for member in members]})
        try:
            own = os.pidfd_open(os.getpid())
        except OSError as cause:
            raise system_error(f"form {self._address.label}", cause) from cause
        try:
            for rank, admitted in self._admitted.items():
                told = [pidfds.get(of, own) for of in ranks_with_pidfd(members, rank)]
                with contextlib.suppress(ConnectionError):  # it has died: its pidfd tells
                    send_with(admitted.client, answer, [memory, *told], deadline)
        finally:
            os.close(own)

    def missing(self) -> str:
        """The ranks that have not joined, for errors."""
        left = [f"rank {rank}" for rank in self._ranks() if rank not in self._admitted]
        more = f", and {len(left) - 8} more" if len(left) > 8 else ""
        return f"of its {self._address.size} members, these have not joined: " + (
            ", ".join(left[:8]) + more
        )

    def hung_up(self) -> dict[int, float]:
        """When which member closed its connection, in seconds of time.monotonic()."""
        with self._changed:
            return dict(self._hung_up)

    def close(self) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            # A thread that a signal kept from its first step finds the host closed, and ends.
            if not self._runs:
                self._say_farewell()
                return
            # WHY with the lock held: another event may wake the thread, which closes this.
            os.eventfd_write(self._wake_fd, 1)
        self._thread.join()

    def abandon(self) -> None:
        """In a child of fork: the name, the thread and the clients are the parent's."""
        self._is_closed = True
        self._listener.close()
        if self._claim is not None:
            self._claim.abandon()

    def _ranks(self) -> range:
        return range(1, self._address.size)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # ------------------------------------------------ the thread

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with self._changed:
            if self._is_closed:
                return
            self._runs = True
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        poll.register(self._listener, select.POLLIN)
        try:
            while not self._is_closed:
                ready = {fd for fd, _ in poll.poll(self._patience_ms())}
                if self._is_closed:
                    break
                for fd in ready & (set(self._silent) | set(self._joined)):
                    self._hear(fd, poll)
                self._end_silence(poll)
                if self._listener.fileno() in ready:
                    self._accept(poll)
        finally:
            self._say_farewell()

    def _patience_ms(self) -> float | None:
        if not self._silent:
            return None
        return max(0.0, min(until for _, until in self._silent.values()) - time.monotonic()) * 1000

    def _accept(self, poll: select.poll) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            # A client that left, or no descriptor is free: the next round tries again.
            time.sleep(0.001)
            return
        client.setblocking(False)
        try:
            _, uid = peer_of(client)
            if uid != os.geteuid():
                raise CudaIpcError(
                    "UNTRUSTED_PEER",
                    f"Cannot serve user {uid} at {self._address.path}: only user {os.geteuid()} is "
                    "served",
                )
            if len(self._silent) + len(self._joined) >= LIMIT_PEER_CLIENTS:
                raise CudaIpcError(
                    "LIMIT_EXCEEDED",
                    f"Cannot serve another client at {self._address.path}: "
                    f"{LIMIT_PEER_CLIENTS} are connected",
                )
        except CudaIpcError as wrong:
            _refuse(client, wrong)
            return
        poll.register(client, select.POLLIN)
        until = time.monotonic() + DEFAULT_MS_PEER_SILENCE / 1000
        self._silent[client.fileno()] = (client, until)

    def _end_silence(self, poll: select.poll) -> None:
        for fd, (client, until) in list(self._silent.items()):
            if time.monotonic() >= until:
                del self._silent[fd]
                poll.unregister(fd)
                _refuse(client, CudaIpcError("TIMEOUT", "Cannot serve a process: it sent nothing"))

    def _hear(self, fd: int, poll: select.poll) -> None:
        client = self._silent.pop(fd, (None, 0.0))[0] or self._joined.pop(fd)
        try:
            packet = client.recv(LIMIT_PEER_REQUEST_BYTES + 1)
        except BlockingIOError:
            packet = b"{}"
        except OSError:
            packet = b""
        wrong: CudaIpcError | None = None
        if packet:
            try:
                self._admit(client, packet)
                self._joined[fd] = client
                return
            except CudaIpcError as refused:
                wrong = refused
            except OSError as cause:
                wrong = system_error(f"admit a process to {self._address.label}", cause)
        poll.unregister(fd)
        self._on_end(client)
        if wrong is None:
            client.close()
        else:
            _refuse(client, wrong)

    def _admit(self, client: socket.socket, packet: bytes) -> None:
        """Raises the error with which the client is refused."""
        rank, admitted = admission(self._address, self._admitted, client, packet)
        with self._changed:
            self._admitted[rank] = admitted
            self._changed.notify_all()

    def _on_end(self, client: socket.socket) -> None:
        with self._changed:
            for rank, admitted in list(self._admitted.items()):
                if admitted.client is not client:
                    continue
                # A rank of a complete group stays taken.
                if self._members is not None:
                    self._hung_up.setdefault(rank, time.monotonic())
                else:
                    del self._admitted[rank]
                    os.close(admitted.pidfd)

    def _say_farewell(self) -> None:
        label = self._address.label
        if self._members is None:
            farewell = CudaIpcError(
                "BARRIER_BROKEN", f"Cannot join {label}: rank 0 gave up forming it"
            )
        else:
            farewell = CudaIpcError("PEER_GONE", f"Cannot join {label}: rank 0 has left it")
        self._remove_file()
        clients = [client for client, _ in self._silent.values()]
        clients += self._joined.values()
        with contextlib.suppress(OSError):
            while True:
                clients.append(self._listener.accept()[0])
        for client in clients:
            _refuse(client, farewell)
        if not self._pidfds_are_taken:
            close_all(admitted.pidfd for admitted in self._admitted.values())
        with self._changed:
            os.close(self._wake_fd)
        self._give_name_back()

    def _remove_file(self) -> None:
        # Nobody else has the name: this process has the claim.
        if self._is_bound:
            self._is_bound = False
            with contextlib.suppress(OSError):
                os.unlink(self._address.path)

    def _give_name_back(self) -> None:
        self._remove_file()
        self._listener.close()
        if self._claim is not None:
            self._claim.release()


def _refuse(client: socket.socket, wrong: CudaIpcError) -> None:
    with contextlib.suppress(OSError):
        client.send(refusal(wrong), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    client.close()


#: WHY: a child of fork has the lock of the name, and would keep it after the parent's death.
_hosts: weakref.WeakSet[GroupHost] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for host in list(_hosts):
        host.abandon()


os.register_at_fork(after_in_child=_after_fork_in_child)
