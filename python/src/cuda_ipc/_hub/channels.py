"""Channels of a hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._channel_parts import ReaderParts, WriterParts, new_facts
from .._choices import Access, DTypeLike, Replace, Sharing, Start, WhenFull, WhenWriterGone
from .._deadline import Deadline
from .._descriptors import (
    ChannelFacts,
    MemorySource,
    channel_facts,
    check_name,
    make_descriptor,
    wrong_kind,
)
from .._device_names import Device
from .._leases import HeldLease
from .._protocol import DEFAULT_MS_EXPLANATION, WRITER_OPEN
from .._ring_succession import take_over
from .._ring_words import STATE
from .._waiting import SPIN_S, Spin, async_form
from ..channel_reader import ChannelReader, check_start
from ..channel_writer import ChannelWriter
from ..errors import CudaIpcError, coded
from ..shared import REQUEST_S
from .allocation import allocate
from .arrays import Shape, slot_alignment
from .names import HubNames
from .session import Opened, check_flag, check_replace, discard
from .sharing import checked_sharing

if TYPE_CHECKING:
    from ..channel_observer import ChannelObserver

T = TypeVar("T")


class HubChannels(HubNames):
    def create_channel(
        self,
        name: str,
        dtype: DTypeLike,
        shape: Shape,
        *,
        slots: int = 8,
        readers_max: int = 8,
        meta_bytes_max: int = 256,
        when_full: WhenFull = "wait",
        when_writer_gone: WhenWriterGone = "end",
        device: Device | None = None,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        sharing: Sharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> ChannelWriter:
        """A channel that this process writes. It is published at once.

        `shape`, in elements, is that of the largest message. `when_full` is "wait", "drop-oldest",
        "drop-newest" or "error". `when_writer_gone` is "end", or "wait" for a process that calls
        `resume_channel`. With `replace` it takes over the name of an older channel, as `create`
        does. Readers of the older one keep it. With `preallocate` all of its memory is taken now,
        as by `create`. Raises as `create`.
        """
        check_replace(replace)
        check_flag("pinned", pinned)
        users = checked_sharing(sharing)
        where = self._device(device)
        facts = new_facts(
            dtype,
            shape,
            slots,
            readers_max,
            meta_bytes_max,
            when_full,
            when_writer_gone,
            slot_alignment(where),
        )
        return self._new_channel(
            name,
            facts,
            where,
            timeout,
            users,
            pinned=pinned,
            replace=replace,
            preallocate=preallocate,
        )

    def _new_channel(
        self,
        name: str,
        facts: ChannelFacts,
        where: str,
        timeout: float | Deadline | None,
        users: dict[str, Any] | None,
        *,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        workers: tuple[int, ...] = (),
    ) -> ChannelWriter:
        """`workers` are users who may be workers of a service, if this is its first offer."""
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        while True:
            size = facts.slot_stride * facts.memory_slots
            take = self._taker(preallocate, deadline)
            memory, uuid, allocated = allocate(where, size, take)
            parts, fds = WriterParts.create(facts, memory, take)
            descriptor = make_descriptor(uuid, size, allocated, facts.content())
            try:
                held = self._register(
                    name, descriptor, fds, pinned, deadline, users, replace, workers
                )
            except BaseException:
                parts.close()
                raise
            writer = self._writer(name, held, parts)
            self._publish(held, writer, deadline)
            # The answer to the first request may have been lost. Then the hub has ended this one.
            if parts.control.ints[STATE] == WRITER_OPEN:
                return self._keep(writer, held)
            writer.end()

    def open_channel(
        self,
        name: str,
        *,
        start: Start = "next",
        lossy: bool = False,
        stream: Any = None,
        spin: float = SPIN_S,
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> ChannelReader:
        """Opens a channel for reading.

        `start` is "next" (the next message to come), "latest" or "oldest". The writer does not
        wait for a `lossy` reader, which may miss messages.

        With a `stream` of a GPU, messages come before their data. The stream waits for them, and
        gives each slot back when it has done its work up to the release. Without, the CPU waits.
        It is a stream of PyTorch, CuPy or cuda.core, or a handle as an integer.

        Before it sleeps, `next` looks again for up to `spin` seconds; 0 sleeps at once. Raises
        READERS_FULL, TypeError or ValueError for a wrong stream, and as `open`.
        """
        check_start(start)
        check_flag("lossy", lossy)
        waits = Spin(spin)
        if stream is not None:
            from .._cuda_streams import check_stream

            check_stream(stream)

        def use(opened: Opened, facts: ChannelFacts, source: MemorySource) -> ChannelReader:
            parts = ReaderParts(facts, source, opened.fds, opened.result.get("place"))
            try:
                held = opened.held
                return ChannelReader(self._link, name, held, parts, start, lossy, stream, waits)
            except BaseException:
                parts.close()
                raise

        return self._open_channel(name, "read", wait, timeout, "reader", use)

    def resume_channel(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> ChannelWriter:
        """Goes on with a channel whose writer is gone, if its `when_writer_gone` is "wait".

        Raises IN_USE if it has a writer, CHANNEL_CORRUPT, and as `open`.
        """

        def use(opened: Opened, facts: ChannelFacts, source: MemorySource) -> ChannelWriter:
            parts = WriterParts.open(facts, source, opened.fds)
            try:
                take_over(name, parts.control, facts, parts.first_position)
                writer = self._writer(name, opened.held, parts)
                parts.control.store32(STATE, WRITER_OPEN)
            except BaseException:
                parts.close()
                raise
            return writer

        return self._open_channel(name, "read-write", wait, timeout, "writer", use)

    @coded("observe a channel")  # its imports, too, open files
    def observe_channel(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> ChannelObserver:
        """Observes a channel: its writer, its readers and their counts. It takes no seat.

        Raises as `open`.
        """
        from ..channel_observer import ChannelObserver

        def use(opened: Opened, facts: ChannelFacts, source: MemorySource) -> ChannelObserver:
            return ChannelObserver(name, opened.held, facts, opened.fds.fds)

        return self._open_channel(name, "read", wait, timeout, "observer", use)

    create_channel_async = async_form(create_channel, discard)
    open_channel_async = async_form(open_channel)
    resume_channel_async = async_form(resume_channel)
    observe_channel_async = async_form(observe_channel)

    def _open_channel(
        self,
        name: str,
        access: Access,
        wait: bool,
        timeout: float | Deadline | None,
        role: str,
        use: Callable[[Opened, ChannelFacts, MemorySource], T],
    ) -> T:
        def checked(opened: Opened, source: MemorySource, content: Mapping[str, Any]) -> T:
            if content.get("kind") != "channel":
                raise wrong_kind(name, content.get("kind"), "a channel")
            return use(opened, channel_facts(content, source), source)

        return self._open(name, access, wait, timeout, role, checked)

    def _writer(self, name: str, held: HeldLease, parts: WriterParts) -> ChannelWriter:
        return ChannelWriter(self._link, name, held, parts, lambda: self._who_reads(name, held))

    def _who_reads(self, name: str, held: HeldLease) -> dict[int, str]:
        """The readers of a channel by seat. Empty if the hub does not answer at once."""
        try:
            info, holders = self.inspect(name, DEFAULT_MS_EXPLANATION / 1000)
        except CudaIpcError:
            return {}
        if info.object != held.object:
            return {}
        return {
            holder.place: f"process {holder.pid}, {holder.program}"
            for holder in holders
            if holder.place is not None
        }
