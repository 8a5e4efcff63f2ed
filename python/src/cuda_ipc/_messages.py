"""The messages that a reader takes and gives back. It never waits for the writer."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ._channel_parts import ReaderParts, given_streams
from ._closing import ClosingAwaited
from ._data import let_go
from ._protocol import LIMIT_CHANNEL_LOOKS
from ._ring_message import Taken
from ._ring_reader import RingReader
from ._waiting import to_its_end
from .channel_message import Message
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._channel_streams import ReaderStreams
    from ._cuda_streams import GivenStreams, Stream
    from ._deadline import Deadline
    from ._leases import HeldLease
    from ._link import Link
    from ._memory import Memory


class Settling:
    """A thread waits for the GPU, for messages that the program has dropped."""

    def __init__(self, dropped: deque[Message], memory: Memory) -> None:
        self.messages = [dropped.popleft() for _ in range(len(dropped))]
        self.is_done = False
        self._memory = memory
        threading.Thread(target=self._settle, name="cuda-ipc call", daemon=True).start()

    def _settle(self) -> None:
        try:
            with contextlib.suppress(CudaIpcError):  # a device that failed uses nothing
                self._memory.finish()
        finally:
            self.is_done = True


class Messages(ClosingAwaited):
    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        parts: ReaderParts,
        start: str,
        lossy: bool,
        stream: object,
    ) -> None:
        ClosingAwaited.__init__(self)
        self.name = name
        self._closed = True
        self._link = link
        self._held = held
        self._parts = parts
        self._is_on_gpu = parts.memory.buffer is None
        self._stride = parts.facts.slot_stride
        self._slots = parts.facts.slots
        # A message whose data a stream of the writer has not written yet.
        self._pending: Taken | None = None
        # The message that `try_next` is about to hand out.
        self._coming: Taken | None = None
        # The thread that has used it last, and messages that the program has dropped elsewhere.
        self._thread = 0
        self._dropped: deque[Message] = deque()
        # Of those, the ones for which a thread waits for the GPU, because the event loop must not.
        self._settling: Settling | None = None
        self._is_on_loop = False
        # Takes what the program has dropped, instead of `drop`.
        self.on_drop: Callable[[Message], object] | None = None
        # Both are made for the first stream.
        self._given: GivenStreams | None = None
        self._streams: ReaderStreams | None = None
        self._stream = self._given_stream(stream)
        self._ring = RingReader(
            name,
            parts.control,
            parts.page,
            parts.facts,
            parts.first_position,
            parts.seat,
            held.lease,
            start,
            lossy,
            parts.room,
            Message,
        )

    def try_next(self) -> Message | None:
        """The next message, or None if it is not there yet.

        Also None if the writer was faster at each of 256 looks: call it again later.
        Raises CLOSED, CHANNEL_CORRUPT, READER_EXPELLED; LIMIT_EXCEEDED if a lossy reader holds
        too many messages.
        """
        message = None
        try:
            message = self._try_next()
            self._coming = None
            return message
        except BaseException:
            self._keep(message)
            raise

    def _try_next(self) -> Message | None:
        """As `try_next`. Keeps what it returns in `_coming`, until the caller has handed it out."""
        self._coming = None
        # As `_using`, which costs more.
        try:
            self._user = self._thread = get_ident()
            if self._closed or self._link.forked:
                self._refuse()
            if (self._dropped or self._settling is not None) and not self._take_dropped():
                return None
            if self._streams is not None:
                self._streams.look()
            taken = self._coming = self._pending
            lost_from: int | None = None
            while True:
                if taken is None:
                    taken = self._coming = self._ring.try_take()
                    if taken is None:
                        return None
                if taken.ready_at > 0:
                    is_ready = self._ring.readiness(taken)
                    if is_ready is None:  # its writer died before the data were there
                        self._ring.lose(taken)
                        position = taken.position
                        taken = self._coming = self._pending = None
                        if lost_from is None:
                            lost_from = position
                        elif position - lost_from >= LIMIT_CHANNEL_LOOKS:
                            return None
                        continue
                    if is_ready:
                        taken.came = True
                    elif self._stream is None:
                        self._pending = taken
                        return None
                    else:
                        self._use_streams().await_data(self._stream, taken)
                taken._reader = self  # type: ignore[attr-defined]
                self._pending = None
                if taken.byte_length == 0 and taken.ready_at == 0:
                    taken.hold.is_open = True
                    self._ring.release(taken)  # it has nothing in the slot
                return taken  # type: ignore[return-value]
        except BaseException:
            self._keep()
            raise
        finally:
            self._user = 0
            if self._leave_later is not None:
                self._leave_unused()

    def _keep(self, message: Message | None = None) -> None:
        """Keeps a message that was not handed out: of a signal, or of a stream that refused it."""
        coming = self._coming if message is None else message
        if coming is not None and not coming.returned:
            self._pending = coming

    def _given_stream(self, stream: object) -> Stream | None:
        """None if none was given. Raises TypeError, ValueError."""
        if stream is None:
            return None
        if self._given is None:
            self._given = given_streams(self._parts.memory)
        return self._given.find(stream)

    def _use_streams(self) -> ReaderStreams:
        if self._streams is None:
            from ._channel_streams import ReaderStreams

            self._streams = ReaderStreams(self._ring, self._parts.control, self._parts.page)
        return self._streams

    @property
    def _has_gpu_work(self) -> bool:
        """Whether a GPU may still use the messages."""
        return self._is_on_gpu or self._streams is not None

    def _finish(self, deadline: Deadline) -> None:
        """Waits for what may still use the messages. Raises TIMEOUT."""
        if not self._has_gpu_work:
            return
        from ._cuda import context_at
        from ._cuda_streams import finish_contexts

        contexts = set() if self._streams is None else self._streams.contexts
        if self._is_on_gpu:
            contexts.add(context_at(self._parts.memory.device[1]).handle)
        finish_contexts(contexts, deadline)

    def _is_ready(self, message: Message) -> bool:
        came = message.came
        if came is None:
            attempt = f'read channel "{self.name}"'
            is_ready = self._using(attempt, lambda: self._ring.readiness(message))
            if is_ready is False:
                return False
            came = is_ready is not None
        if not came:
            raise CudaIpcError(
                "PEER_GONE",
                f'Cannot use message {message.sequence} of channel "{self.name}": its writer died '
                "before its data were there",
            )
        return True

    def _release(self, message: Message, stream: Any, is_done: bool = False) -> None:
        """`is_done` says that no work of this process's context uses the message."""
        by = self._stream if stream is None else self._given_stream(stream)
        if by is None and self._is_on_gpu and not is_done:
            self._parts.memory.finish()
        # As `_using`, which costs more. Closing has given all back.
        try:
            self._user = get_ident()
            if not self._closed:
                self._give_back(message, by)
        finally:
            self._user = 0
            if self._leave_later is not None:
                self._leave_unused()

    async def _release_async(self, message: Message, stream: Any) -> None:
        if stream is not None or not self._waits_for_gpu:
            self._release(message, stream)
            return
        try:
            await to_its_end(self._parts.memory.finish)
        except BaseException as failure:
            if not isinstance(failure, CudaIpcError):
                self._dropped.append(message)  # a later call gives it back
            raise
        if not message.returned:
            self._release(message, None, is_done=True)

    @property
    def _waits_for_gpu(self) -> bool:
        """Without a stream it must wait for the GPU before it gives a message back."""
        return self._is_on_gpu and self._stream is None and not self._link.forked

    def drop(self, message: Message) -> None:
        """Gives a message back at once if nobody uses the ring now, else soon.

        WHY without a lock: a finalizer calls it, on any thread, in the middle of any call.
        """
        if self._closed or self._link.forked:
            return
        if self.on_drop is not None:
            self.on_drop(message)
            return
        if self._thread != get_ident() or self._user != 0 or self._has_gpu_work:
            self._dropped.append(message)
            with self._waits:  # the one who waits keeps the bell open
                if self._is_awaited and not self._closed:
                    self._parts.bell.ring()
            return
        with contextlib.suppress(CudaIpcError):  # it was closed in this very moment
            self._using("give back", lambda: self._give_back(message, None))

    def _take_dropped(self) -> bool:
        """Gives back what was dropped. False if no message can come before a GPU is done."""
        settling = self._settling
        if settling is not None and settling.is_done:
            for message in settling.messages:
                self._give_back(message, None)
            self._settling = settling = None
        if not self._is_on_loop:
            while self._dropped:
                message = self._dropped.popleft()
                if self._stream is None and self._is_on_gpu:
                    self._parts.memory.finish()
                self._give_back(message, self._stream)
        elif self._dropped and settling is None:
            self._settling = Settling(self._dropped, self._parts.memory)
        return self._settling is None or self._pending is not None or not self._ring.is_full

    def _give_back(self, message: Message, by: Stream | None) -> None:
        """Without a stream nothing may still use the message."""
        data = getattr(message, "_data", None)
        if data is not None:
            let_go(data)
        if by is None:
            self._ring.release(message)
        else:
            self._use_streams().release(message, by)

    def _bytes_of(self, message: Message) -> memoryview:
        buffer = self._parts.memory.buffer
        if buffer is None:
            raise CudaIpcError(
                "UNSUPPORTED",
                f'Cannot give the bytes of channel "{self.name}": it lies on a GPU; use '
                "message.array",
            )
        start = message.position % self._slots * self._stride
        return buffer[start : start + message.byte_length]

    def _refuse(self) -> None:
        if self._closed:
            closed(f'read channel "{self.name}"')
        self._link.check(f'read channel "{self.name}"')
