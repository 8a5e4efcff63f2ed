"""One thread that receives from many channels, and that wakes at the time of an alarm."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .._fds import new_bell, new_epoll
from .._protocol import LIMIT_CHANNEL_LOOKS, WRITER_CLOSED, WRITER_GONE
from ..channel_message import Message
from ..errors import CudaIpcError

if TYPE_CHECKING:
    from .._link import Link
    from ..channel_reader import ChannelReader

#: Between looks at what nobody rings for: a stream of another process that is still at work.
_LOOK_AGAIN_S = 1e-3
#: WHY made once: making a range takes as long as a look.
_LOOKS = range(LIMIT_CHANNEL_LOOKS)
#: `epoll` takes at most 2**31 milliseconds, and a client may set any deadline.
_LONGEST_SLEEP_S = 86400.0


class Inbox:
    """One channel of a receiver. The lock guards the channel, whose slots other threads release."""

    def __init__(
        self,
        reader: ChannelReader,
        lock: threading.RLock,
        on_message: Callable[[Message], object],
        on_end: Callable[[CudaIpcError | None], object],
    ) -> None:
        self.reader = reader
        self.fd = reader._parts.bell.fd
        #: Its next message is there, and its data are not yet.
        self.is_pending = False
        self._lock = lock
        self._on_message = on_message
        self._on_end = on_end
        self._has_ended = False

    def receive(self) -> None:
        """Passes on the messages that are there. Ends the inbox if no other can come."""
        for _ in _LOOKS:
            if self._has_ended:
                return
            try:
                message = self._next()
            except CudaIpcError as wrong:
                self._end(wrong)
                return
            if message is None:
                return
            try:
                self._on_message(message)
            except CudaIpcError as wrong:
                self._end(wrong)
        with self._lock:
            if not (self._has_ended or self.reader.closed):
                self._continue_later()

    def _continue_later(self) -> None:
        """Other inboxes get their turn even if messages never end."""
        self.reader._parts.bell.ring()

    def stop(self) -> None:
        """Call it before the reader is closed, with the lock held."""
        self._has_ended = True

    def _next(self) -> Message | None:
        with self._lock:
            if self._has_ended or self.reader.closed:
                return None
            reader, ring = self.reader, self.reader._ring
            ring.wake_up()
            reader._parts.bell.silence()
            for _ in _LOOKS:
                message = reader.try_next()
                self.is_pending = reader._pending is not None
                if message is not None or self.is_pending:
                    return message
                if reader._is_over():
                    break
                reader._link.check(f'read channel "{reader.name}"')
                if not reader._held.is_held:
                    raise CudaIpcError(
                        "HUB_GONE", f'Cannot read channel "{reader.name}": the hub has lost it'
                    )
                if ring.is_outrun:
                    self._continue_later()
                    return None
                ring.fall_asleep()
                # SYNC: looks again after the store. The writer stores its news before it looks.
                if not ring.has_next and ring.state not in (WRITER_CLOSED, WRITER_GONE):
                    return None
                ring.wake_up()
            else:
                self._continue_later()
                return None
        self._end(None)
        return None

    def _end(self, reason: CudaIpcError | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._on_end(reason)


class Receiver:
    """Runs until `close`. Callbacks run on its thread, without any lock of it held."""

    def __init__(self, link: Link, name: str) -> None:
        """Raises HUB_GONE or CLOSED if the link has ended."""
        self._link = link
        end_fd = link.begin_sleep()
        if end_fd is None:
            link.check("receive messages")
            raise AssertionError("a link without an end has a descriptor for it")
        self._end_fd = end_fd
        with contextlib.ExitStack() as undo:
            undo.callback(link.end_sleep)
            self._wake_fd = new_bell()
            undo.callback(os.close, self._wake_fd)
            self._epoll = new_epoll()
            undo.pop_all()
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._epoll.register(end_fd, select.EPOLLIN)
        self._inboxes: dict[int, Inbox] = {}
        self._calls: deque[Callable[[], object]] = deque()
        # WHY reentrant: a finalizer calls `call_later`, in the middle of any call.
        self._lock = threading.RLock()
        self._is_closed = False
        #: Called once the time of `alarm_at` has come.
        self.on_alarm: Callable[[], object] = lambda: None
        self.on_hub_end: Callable[[], object] = lambda: None
        self._alarm_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, inbox: Inbox) -> None:
        def begin() -> None:
            self._inboxes[inbox.fd] = inbox
            self._epoll.register(inbox.fd, select.EPOLLIN)
            inbox.receive()

        self.call(begin)

    def remove(self, inbox: Inbox, then: Callable[[], object]) -> None:
        """Calls `then`, which closes the channel, once nobody watches its bell."""

        def end() -> None:
            if self._inboxes.get(inbox.fd) is inbox:
                del self._inboxes[inbox.fd]
                with contextlib.suppress(OSError, ValueError):  # it is closed
                    self._epoll.unregister(inbox.fd)
            then()

        self.call(end)

    def call(self, work: Callable[[], object]) -> None:
        """Runs work on this thread: at once if the caller is on it, or if nothing is watched."""
        if threading.current_thread() is self._thread:
            work()
            return
        with self._lock:
            if not self._is_closed:
                self._calls.append(work)
                os.eventfd_write(self._wake_fd, 1)
                return
        work()

    def call_later(self, work: Callable[[], object]) -> None:
        """Runs work on this thread, but not within this call. After `close` it runs nothing."""
        with self._lock:
            if not self._is_closed:
                self._calls.append(work)
                os.eventfd_write(self._wake_fd, 1)

    def alarm(self, at: float | None) -> None:
        """Sets the alarm, in seconds of time.monotonic(), if it is earlier than the one set."""
        if at is None or (self._alarm_at is not None and self._alarm_at <= at):
            return
        self._alarm_at = at
        if threading.current_thread() is not self._thread:
            with self._lock:
                if not self._is_closed:
                    os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """Runs the calls that wait, and ends. Returns once the thread has ended."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.eventfd_write(self._wake_fd, 1)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while not self._is_closed:
                self._step()
        finally:
            # What was called before it was closed.
            while self._calls:
                self._calls.popleft()()
            self._epoll.close()
            with self._lock:  # `close` may be about to wake this thread
                os.close(self._wake_fd)
            self._link.end_sleep()

    def _step(self) -> None:
        ready = [fd for fd, _ in self._epoll.poll(self._timeout())]
        if self._wake_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake_fd)
        while self._calls:
            self._calls.popleft()()
        if self._end_fd in ready:
            self._epoll.unregister(self._end_fd)
            for inbox in list(self._inboxes.values()):
                inbox.receive()
            self.on_hub_end()
        for fd in ready:
            found = self._inboxes.get(fd)
            if found is not None:
                found.receive()
        for inbox in list(self._inboxes.values()):
            if inbox.is_pending:
                inbox.receive()
        if self._alarm_at is not None and time.monotonic() >= self._alarm_at:
            self._alarm_at = None
            self.on_alarm()

    def _timeout(self) -> float | None:
        if any(inbox.is_pending for inbox in self._inboxes.values()):
            return _LOOK_AGAIN_S
        if self._alarm_at is None:
            return None
        return min(max(0.0, self._alarm_at - time.monotonic()), _LONGEST_SLEEP_S)
