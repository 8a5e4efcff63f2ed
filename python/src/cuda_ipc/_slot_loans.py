"""The slots that a writer loans, one at a time. They are committed or given back.

It never waits, except for the GPU when a slot is committed without a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

from ._channel_parts import WriterParts, given_streams
from ._closing import ClosingAwaited
from ._deadline import NO_DEADLINE, Deadline
from ._message_format import encode_meta, size_of
from ._ring_writer import RingWriter
from ._waiting import SlotCopy, to_its_end
from .channel_slot import Slot
from .errors import CudaIpcError, closed

if TYPE_CHECKING:
    from ._channel_streams import WriterStreams
    from ._cuda_streams import GivenStreams, Stream
    from ._leases import HeldLease
    from ._link import Link


class SlotLoans(ClosingAwaited):
    def __init__(self, link: Link, name: str, held: HeldLease, parts: WriterParts) -> None:
        ClosingAwaited.__init__(self)
        self.name = name
        self._link = link
        self._held = held
        self._parts = parts
        # WHY weak: a signal may end a `with` before it has the slot. Nobody else would close it.
        self._loaned: ref[Slot] | None = None
        self._ring = RingWriter(
            name, parts.control, parts.facts, parts.first_position, parts.pages, parts.bells
        )
        # Of calls that were cancelled: they still write to the slot that would be loaned next.
        self._copies: list[SlotCopy[Any]] = []
        # Both are made for the first stream.
        self._given: GivenStreams | None = None
        self._streams: WriterStreams | None = None

    def _reserve(self, by: Stream | None) -> Slot | None:
        ring = self._ring
        # As `_using`, which costs more.
        try:
            self._user = get_ident()
            if self._closed:
                closed(f'write to channel "{self.name}"')
            if not ring.reserve():
                return None
            if self._copies:
                self._copies = [copy for copy in self._copies if not copy.is_done]
                if self._copies:
                    return None
            if (ring.any_gpu or self._streams is not None) and not self._order(by):
                return None
            slot = Slot(self, ring.slot, False, by)
            self._loaned = ref(slot)
            return slot
        finally:
            self._user = 0
            if self._leave_later is not None:
                self._leave_unused()

    def _given_stream(self, stream: object) -> Stream | None:
        """None if none was given. Raises TypeError, ValueError."""
        if stream is None:
            return None
        if self._given is None:
            self._given = given_streams(self._parts.memory)
        return self._given.find(stream)

    def _order(self, by: Stream | None) -> bool:
        """Orders the stream after all others that use the slot. False if the CPU has to wait.

        None stands for the CPU.
        """
        if by is None and self._streams is None:
            return not self._ring.pending_releases()
        return self._use_streams().order(by)

    def _use_streams(self) -> WriterStreams:
        if self._streams is None:
            from ._channel_streams import WriterStreams

            self._streams = WriterStreams(self._ring, self._parts.control, self._parts.pages)
            self._held.on_goodbye = self._finish
        return self._streams

    @property
    def _has_gpu_work(self) -> bool:
        """Whether a stream may still use the slots."""
        return self._streams is not None

    def _finish(self, deadline: Deadline = NO_DEADLINE) -> None:
        """Waits for the streams that were given. Raises TIMEOUT."""
        if self._streams is not None:
            from ._cuda_streams import finish_contexts

            finish_contexts(self._streams.contexts, deadline)

    def _without_room(self, by: Stream | None) -> Slot | None:
        """What comes of a full channel at once; None if it is waited for."""
        facts = self._parts.facts
        if facts.when_full == "drop-newest":
            slot = Slot(self, facts.slots, True, by)
            self._loaned = ref(slot)
            return slot
        if facts.when_full == "error":
            raise CudaIpcError(
                "CHANNEL_FULL",
                f'Cannot write to channel "{self.name}": all of its {facts.slots} slots are taken',
            )
        return None

    @property
    def _is_on_gpu(self) -> bool:
        return self._parts.memory.buffer is None

    def _leaves(self, copy: SlotCopy[Any], failure: BaseException) -> None:
        """Nobody awaits this copy any more. Its slot is not loaned before its end."""
        if not isinstance(failure, RuntimeError):  # its thread could not be started
            self._copies.append(copy)

    async def _write_async(self, slot: Slot, data: Any) -> int:
        if not self._is_on_gpu:
            return slot._write(data)
        copy = SlotCopy(lambda: slot._write(data))
        try:
            return await to_its_end(copy)
        except BaseException as failure:
            self._leaves(copy, failure)
            raise

    def _fill(self, slot: Slot, written: int, meta: Any, shape: Any, stream: Any) -> int | None:
        slot._check_filled(written, shape)
        is_whole = written == self._parts.facts.slot_bytes
        length = None if is_whole or shape is not None else written
        return self._commit(slot, meta, shape, length, stream, is_there=True)

    def _commit(
        self,
        slot: Slot,
        meta: Any,
        shape: int | Sequence[int] | None,
        byte_length: int | None,
        stream: Any,
        is_there: bool = False,
    ) -> int | None:
        """`is_there` says that nothing of this process still writes to the slot."""
        facts = self._parts.facts
        lengths, size = None, facts.slot_bytes
        if shape is not None or byte_length is not None:
            lengths, size = size_of(self.name, facts, shape, byte_length)
        flags, raw = 0, b""
        if meta is not None:
            flags, raw = encode_meta(self.name, meta, facts.meta_bytes_max)
        if self._link.forked:
            self._link.check(f'write to channel "{self.name}"')
        memory = self._parts.memory
        by = slot._stream if stream is None else self._given_stream(stream)
        ready_at = 0
        if by is None and not is_there and self._is_on_gpu:
            memory.finish()
        own = None if lengths == facts.shape else lengths
        position = self._ring.position
        # As `_using`, which costs more.
        try:
            self._user = get_ident()
            if self._closed:
                closed(f'write to channel "{self.name}"')
            if by is not None and not slot._is_dropped:
                ready_at = self._use_streams().fill(by)
            slot._end()
            self._loaned = None
            if slot._is_dropped:
                self._ring.drop()
                return None
            return self._ring.commit(size, flags, raw, own, ready_at)
        except BaseException:
            if ready_at > 0 or not slot._is_open:
                # A signal has ended it. The value of `ready` that was enqueued is not used again.
                slot._end()
                self._loaned = None
                if ready_at > 0 and self._ring.position == position:
                    self._ring.pass_over()
            raise
        finally:
            self._user = 0
            if self._leave_later is not None:
                self._leave_unused()

    def _take_back(self) -> None:
        """Gives the loaned slot back, if there is one."""
        slot = None if self._loaned is None else self._loaned()
        if slot is not None:
            slot.close()

    def _abort(self, slot: Slot) -> None:
        current = None if self._loaned is None else self._loaned()
        if current is not None and current is not slot:
            return
        self._loaned = None
        is_gone = self._link.forked or self._closed
        if slot._stream is None or slot._is_dropped or is_gone:
            return
        stream = slot._stream

        def pass_over() -> None:
            # The stream may still write to the slot, so the next message must not get it.
            self._use_streams().fill(stream)
            self._ring.pass_over()

        self._using(f'write to channel "{self.name}"', pass_over)
