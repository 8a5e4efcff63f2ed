"""The hub: where processes share memory by name."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ._channel_parts import ReaderParts, WriterParts, new_facts
from ._connection import Result, checked_number, own_program
from ._data import data_of
from ._deadline import Deadline
from ._descriptors import (
    ChannelFacts,
    Index,
    Place,
    channel_facts,
    check_name,
    checked_descriptor,
    make_descriptor,
    read_index,
    timeline_offset,
    write_index,
    wrong_kind,
)
from ._fds import SharedFds
from ._layout import Layout, Refused, checked_layout, packed_layout
from ._leases import HeldLease
from ._link import Link
from ._memory import HostAllocation, Memory, create_file, round_up
from ._place import hub_socket_path, trusted_users
from ._protocol import (
    DEFAULT_MS_CONNECT,
    DEFAULT_MS_EXPLANATION,
    DEFAULT_MS_RECONNECT,
    LINE_BYTES,
    PAGE_BYTES,
    POISON,
    WRITER_OPEN,
)
from ._ring_words import STATE
from ._ring_writer import take_over
from ._waiting import in_thread
from ._words import Words
from .channel_reader import ChannelReader, check_start
from .channel_writer import ChannelWriter
from .errors import CudaIpcError
from .shared import REQUEST_S, Holder, ObjectInfo, SharedArray, SharedBundle
from .timelines import TIMELINE_FILE_BYTES, OwnedTimeline, Timeline

if TYPE_CHECKING:
    from ._sharing import SharedTensor

T = TypeVar("T")
Shape = int | Sequence[int]
_BUNDLE_ALIGNMENT = 256


class _Opened:
    """The hub's answer to an open. It owns a use of the descriptors until it is closed."""

    def __init__(self, name: str, held: HeldLease, result: Result) -> None:
        self.name = name
        self.held = held
        self.result = result
        self.fds = held.fds.share()


class Hub:
    """A session with the hub. Leaving `with` gives back all that it holds.

    Any number of threads may use it. After a fork only the parent may; connect in the child.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._handles: weakref.WeakSet[Any] = weakref.WeakSet()

    # ------------------------------------------------ arrays

    def create(
        self,
        name: str,
        dtype: object,
        shape: Shape,
        *,
        device: str = "host",
        pinned: bool = False,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """New memory for one array, all zero on the host. Fill it, then `publish()`.

        The hub keeps it until `close()`, also if the program lets go of the object.

        `dtype` is a name such as "float32", or a dtype of NumPy or PyTorch. `shape` is in elements.
        `device` is "host" or "cuda:N". A `pinned` array stays until it is removed; another one
        ends with its last lease. Raises NAME_TAKEN, INVALID_NAME, UNSUPPORTED_DTYPE,
        OUT_OF_MEMORY, LIMIT_EXCEEDED, TIMEOUT.
        """
        layout = packed_layout(dtype, shape)
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        content = {"kind": "array", "array": layout.spec()}
        memory, uuid, allocated = _allocate(device, layout.nbytes)
        descriptor = make_descriptor(uuid, layout.nbytes, allocated, content)
        held = self._register(name, descriptor, SharedFds(memory.fds()), pinned, deadline)
        return self._keep(SharedArray(self._link, name, held, memory, layout), held)

    def put(
        self,
        name: str,
        data: Any,
        *,
        dtype: object = None,
        shape: Shape | None = None,
        device: str = "host",
        pinned: bool = False,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """Creates an array, copies `data` into it and publishes it.

        `data` is an array on the host (NumPy, PyTorch, anything with a buffer), or bytes with
        `dtype` and `shape`. Raises as `create`; TypeError, ValueError.
        """
        found, lengths, view = data_of(data, dtype, shape)
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        array = self.create(
            name, found, lengths, device=device, pinned=pinned, timeout=deadline.remaining
        )
        try:
            array.write(view)
            array.publish(deadline.remaining)
        except BaseException:
            array.close()
            raise
        return array

    def share(
        self, name: str, tensor: Any, *, pinned: bool = False, timeout: float | None = REQUEST_S
    ) -> SharedTensor:
        """Publishes an array of torch, CuPy, Numba, JAX or NumPy, without a copy if possible.

        `copied` of the result says whether the values had to be copied, and `why`. Without a copy,
        others see what is written to `tensor` later, and the result keeps it until `close()`. Work
        of the GPU on it is waited for. Raises UNSUPPORTED for a tensor that requires grad, is
        sparse or lies on no CPU and no CUDA device; TypeError for what is no array; and as
        `create`.
        """
        from ._sharing import share

        return share(self, name, tensor, pinned, timeout)

    def open(
        self,
        name: str,
        *,
        access: str = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """Opens a published array and maps it.

        With `wait`, it waits until the name is published; `timeout` is in seconds, and None waits
        without a limit. `access` is "read" or "read-write". Raises NOT_FOUND without `wait`;
        TIMEOUT, which says what the name waits for; WRONG_KIND, READ_ONLY, PERMISSION_DENIED,
        INVALID_DESCRIPTOR.
        """

        def use(opened: _Opened, place: Place, content: Mapping[str, Any]) -> SharedArray:
            if content.get("kind") != "array":
                raise wrong_kind(name, content.get("kind"), "an array")
            layout = checked_layout(content.get("array"), place.byte_length)
            memory = place.map(opened.fds.fds[0], access == "read")
            return SharedArray(self._link, name, opened.held, memory, layout)

        return self._open(name, access, wait, timeout, None, use)

    # ------------------------------------------------ bundles

    def create_bundle(
        self,
        name: str,
        arrays: Mapping[str, tuple[object, Shape]],
        metadata: Mapping[str, str] | None = None,
        *,
        device: str = "host",
        pinned: bool = False,
        timeout: float | None = REQUEST_S,
    ) -> SharedBundle:
        """New memory for many arrays, given as `{name: (dtype, shape)}`. Fill, then `publish()`.

        The values of `metadata` are strings. Raises as `create`.
        """
        metadata = _checked_metadata(metadata)
        layouts: dict[str, Layout] = {}
        end = 0
        for key, (dtype, shape) in arrays.items():
            if not isinstance(key, str):
                raise TypeError(f"the name of an array must be a string, not {key!r}")
            layouts[key] = packed_layout(dtype, shape, round_up(end, _BUNDLE_ALIGNMENT))
            end = layouts[key].byte_offset + layouts[key].nbytes
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        memory, uuid, allocated = _allocate(device, end)
        index, length = write_index(Index(layouts, metadata))
        content = {"kind": "bundle", "arrayCount": len(layouts), "indexByteLength": length}
        descriptor = make_descriptor(uuid, end, allocated, content)
        fds = SharedFds([*memory.fds(), index])
        held = self._register(name, descriptor, fds, pinned, deadline)
        return self._keep(SharedBundle(self._link, name, held, memory, layouts, metadata), held)

    def open_bundle(
        self,
        name: str,
        *,
        access: str = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedBundle:
        """Opens a published bundle, such as a model that `cuda-ipc put` loaded. As `open`."""

        def use(opened: _Opened, place: Place, content: Mapping[str, Any]) -> SharedBundle:
            if content.get("kind") != "bundle":
                raise wrong_kind(name, content.get("kind"), "a bundle")
            if len(opened.fds.fds) != 2:
                raise Refused(f"{len(opened.fds.fds)} descriptors came with a bundle, wanted 2")
            index = read_index(content, opened.fds.fds[1], place.byte_length)
            memory = place.map(opened.fds.fds[0], access == "read")
            return SharedBundle(
                self._link, name, opened.held, memory, index.layouts, index.metadata
            )

        return self._open(name, access, wait, timeout, None, use)

    # ------------------------------------------------ timelines

    def create_timeline(self, name: str, *, timeout: float | None = REQUEST_S) -> OwnedTimeline:
        """A timeline of this process, at 0. It is published at once. Raises as `create`."""
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        content = {"kind": "timeline", "byteOffset": 0}
        size = TIMELINE_FILE_BYTES
        while True:
            fds = SharedFds([create_file(size)])
            words = Words(fds.fds[0], size, writable=True)
            descriptor = make_descriptor(None, size, size, content)
            held = self._register(name, descriptor, fds, False, deadline)
            timeline = OwnedTimeline(self._link, name, held, words, 0)
            self._publish(held, timeline, deadline)
            # The answer to the first request may have been lost. Then the hub has ended this line.
            if words.longs[0] != POISON:
                return self._keep(timeline, held)
            timeline.close()

    def open_timeline(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> Timeline:
        """Opens a timeline of another process. As `open`."""

        def use(opened: _Opened, place: Place, content: Mapping[str, Any]) -> Timeline:
            if content.get("kind") != "timeline":
                raise wrong_kind(name, content.get("kind"), "a timeline")
            offset = timeline_offset(content, place)
            words = _map_line(opened.fds.fds[0], offset, place)
            return Timeline(self._link, name, opened.held, words, offset)

        return self._open(name, "read", wait, timeout, None, use)

    # ------------------------------------------------ channels

    def create_channel(
        self,
        name: str,
        dtype: object,
        shape: Shape,
        *,
        slots: int = 8,
        readers_max: int = 8,
        meta_bytes_max: int = 256,
        when_full: str = "wait",
        when_writer_gone: str = "end",
        device: str = "host",
        pinned: bool = False,
        timeout: float | None = REQUEST_S,
    ) -> ChannelWriter:
        """A channel that this process writes. It is published at once.

        `shape`, in elements, is that of the largest message. `when_full` is "wait", "drop-oldest",
        "drop-newest" or "error". `when_writer_gone` is "end", or "wait" for a process that calls
        `resume_channel`. Raises as `create`.
        """
        alignment = 64 if device == "host" else _BUNDLE_ALIGNMENT
        facts = new_facts(
            dtype, shape, slots, readers_max, meta_bytes_max, when_full, when_writer_gone, alignment
        )
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        while True:
            size = facts.slot_stride * facts.memory_slots
            memory, uuid, allocated = _allocate(device, size)
            parts, fds = WriterParts.create(facts, memory)
            descriptor = make_descriptor(uuid, size, allocated, facts.content())
            try:
                held = self._register(name, descriptor, fds, pinned, deadline)
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
        start: str = "next",
        lossy: bool = False,
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> ChannelReader:
        """Opens a channel for reading.

        `start` is "next" (the next message to come), "latest" or "oldest". The writer does not
        wait for a `lossy` reader, which may miss messages. Raises READERS_FULL, and as `open`.
        """
        check_start(start)

        def use(opened: _Opened, facts: ChannelFacts, place: Place) -> ChannelReader:
            parts = ReaderParts(facts, place, opened.fds, opened.result.get("place"))
            try:
                return ChannelReader(self._link, name, opened.held, parts, start, lossy)
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

        def use(opened: _Opened, facts: ChannelFacts, place: Place) -> ChannelWriter:
            parts = WriterParts.open(facts, place, opened.fds)
            try:
                take_over(name, parts.control, facts, parts.first_position)
                writer = self._writer(name, opened.held, parts)
                parts.control.store32(STATE, WRITER_OPEN)
            except BaseException:
                parts.close()
                raise
            return writer

        return self._open_channel(name, "read-write", wait, timeout, "writer", use)

    # ------------------------------------------------ names

    def list(self, timeout: float | None = REQUEST_S) -> list[ObjectInfo]:
        """All objects that this user can open, in the order of their names."""
        deadline = self._begin("list what is shared", timeout)
        found: list[ObjectInfo] = []
        fields: dict[str, Any] = {}
        while True:
            page = self._link.request("list", fields, deadline)
            found += [ObjectInfo(entry) for entry in page["objects"]]
            if page["next"] is None:
                return found
            fields = {"after": page["next"]}

    def inspect(
        self, name: str, timeout: float | None = REQUEST_S
    ) -> tuple[ObjectInfo, _HolderList]:
        """One object, and the processes that hold it. Raises NOT_FOUND."""
        deadline = self._begin(f'inspect "{check_name(name)}"', timeout)
        found = self._link.request("inspect", {"name": name}, deadline)
        return ObjectInfo(found["object"]), [Holder(entry) for entry in found["holders"]]

    def status(self, timeout: float | None = REQUEST_S) -> dict[str, Any]:
        """The state of the hub, with the fields of docs/protocol.md, "status"."""
        return self._link.request("status", {}, self._begin("ask for the status", timeout))

    def remove(self, name: str, timeout: float | None = REQUEST_S) -> None:
        """Takes a name away. Who holds the memory keeps it. Raises NOT_FOUND, NOT_OWNER."""
        deadline = self._begin(f'remove "{check_name(name)}"', timeout)
        self._link.request("remove", {"name": name}, deadline)

    def stop(self, *, force: bool = False, timeout: float | None = REQUEST_S) -> None:
        """Ends the hub for good: all names are gone. Mapped memory stays.

        Raises HUB_IN_USE without `force` while there are objects or other clients.
        """
        self._link.request("stop", {"force": force}, self._begin("stop the hub", timeout))

    @property
    def socket_path(self) -> str:
        return self._link.path

    @property
    def closed(self) -> bool:
        """True after `close()`, and if no hub is looked for any more."""
        return self._link.ended is not None

    def on_reconnect(self, listener: Callable[[bool], object]) -> None:
        """Calls `listener` after each return to a hub, on another thread.

        Its argument is False if the hub has lost some of what this process held.
        """
        self._link.on_reconnect.append(listener)

    def close(self) -> None:
        """Gives back all that it holds, and hangs up. The second time it does nothing."""
        for handle in list(self._handles):
            handle.close()
        self._link.close()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Hub:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # What it has opened goes on: each object holds the link itself.
        link = getattr(self, "_link", None)
        if link is not None and link.ended is None and len(self._handles) == 0:
            link.close()

    def __repr__(self) -> str:
        return f"<Hub {self._link.path!r}{' closed' if self.closed else ''}>"

    # ------------------------------------------------ for asyncio

    async def open_async(
        self,
        name: str,
        *,
        access: str = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """As `open`, for asyncio. If the task is cancelled, nothing is held."""
        return await self._in_thread(
            timeout, lambda left: self.open(name, access=access, wait=wait, timeout=left)
        )

    async def open_bundle_async(
        self,
        name: str,
        *,
        access: str = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedBundle:
        """As `open_bundle`, for asyncio."""
        return await self._in_thread(
            timeout, lambda left: self.open_bundle(name, access=access, wait=wait, timeout=left)
        )

    async def open_timeline_async(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> Timeline:
        """As `open_timeline`, for asyncio."""
        return await self._in_thread(
            timeout, lambda left: self.open_timeline(name, wait=wait, timeout=left)
        )

    async def open_channel_async(
        self,
        name: str,
        *,
        start: str = "next",
        lossy: bool = False,
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> ChannelReader:
        """As `open_channel`, for asyncio."""
        return await self._in_thread(
            timeout,
            lambda left: self.open_channel(name, start=start, lossy=lossy, wait=wait, timeout=left),
        )

    async def resume_channel_async(
        self, name: str, *, wait: bool = True, timeout: float | None = REQUEST_S
    ) -> ChannelWriter:
        """As `resume_channel`, for asyncio."""
        return await self._in_thread(
            timeout, lambda left: self.resume_channel(name, wait=wait, timeout=left)
        )

    async def _in_thread(self, timeout: float | None, call: Callable[[Any], T]) -> T:
        deadline = Deadline("wait", timeout)
        return await in_thread(
            deadline,
            lambda: call(deadline),
            lambda opened: opened.close(),  # type: ignore[attr-defined]
        )

    # ------------------------------------------------ helpers

    def _begin(self, attempt: str, timeout: float | Deadline | None) -> Deadline:
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(attempt, timeout)
        deadline.attempt = attempt
        self._link.check(attempt)
        return deadline

    def _keep(self, handle: T, created: HeldLease | None = None) -> T:
        self._handles.add(handle)
        if created is not None:
            created.created = handle
        return handle

    def _register(
        self,
        name: str,
        descriptor: dict[str, Any],
        fds: SharedFds,
        pinned: bool,
        deadline: Deadline,
    ) -> HeldLease:
        """Takes over the descriptors."""
        fields = {
            "name": name,
            "lifetime": "pinned" if pinned else "held",
            "descriptor": descriptor,
        }

        def keep(result: Result, _: tuple[int, ...]) -> HeldLease:
            held = HeldLease(
                self._link,
                checked_number(result, "object"),
                checked_number(result, "lease"),
                "owner",
                fds.share(),
            )
            self._link.hold(held)
            return held

        try:
            held: HeldLease = self._link.ask("create", fields, deadline, fds.fds, keep).kept
        finally:
            fds.close()
        return held

    def _publish(self, held: HeldLease, handle: Any, deadline: Deadline) -> None:
        try:
            self._link.request("publish", {"object": held.object}, deadline)
        except BaseException:
            handle.close()
            raise

    def _open(
        self,
        name: str,
        access: str,
        wait: bool,
        timeout: float | Deadline | None,
        role: str | None,
        use: Callable[[_Opened, Place, Mapping[str, Any]], T],
    ) -> T:
        check_name(name)
        if access not in ("read", "read-write"):
            raise ValueError(f'access must be "read" or "read-write", not {access!r}')
        deadline = self._begin(f'open "{name}"', timeout)
        fields: dict[str, Any] = {"name": name, "access": access, "wait": bool(wait)}
        if role is not None:
            fields["role"] = role

        def keep(result: Result, fds: tuple[int, ...]) -> HeldLease:
            owned = SharedFds(fds)
            try:
                number = checked_number(result, "object")
                lease = checked_number(result, "lease")
                held = HeldLease(self._link, number, lease, access, owned, role)
                self._link.hold(held)
            except BaseException:
                owned.close()
                raise
            return held

        reply = self._link.ask("open", fields, deadline, (), keep)
        opened = _Opened(name, reply.kept, reply.result)
        try:
            if len(opened.fds.fds) == 0:
                raise Refused("it came without file descriptors")
            place, content = checked_descriptor(reply.result.get("descriptor"))
            return self._keep(use(opened, place, content))
        except Refused as refused:
            opened.held.release()
            raise CudaIpcError(
                "INVALID_DESCRIPTOR", f'Cannot open "{name}": {refused}'
            ) from refused
        except BaseException:
            opened.held.release()
            raise
        finally:
            opened.fds.close()

    def _open_channel(
        self,
        name: str,
        access: str,
        wait: bool,
        timeout: float | Deadline | None,
        role: str,
        use: Callable[[_Opened, ChannelFacts, Place], T],
    ) -> T:
        def checked(opened: _Opened, place: Place, content: Mapping[str, Any]) -> T:
            if content.get("kind") != "channel":
                raise wrong_kind(name, content.get("kind"), "a channel")
            return use(opened, channel_facts(content, place), place)

        return self._open(name, access, wait, timeout, role, checked)

    def _writer(self, name: str, held: HeldLease, parts: WriterParts) -> ChannelWriter:
        return ChannelWriter(self._link, name, held, parts, lambda: self._who_reads(name, held))

    def _who_reads(self, name: str, held: HeldLease) -> dict[int, str]:
        """The readers of a channel by place. Empty if the hub does not answer at once."""
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


#: WHY a name of its own: inside the class, `list` is the method.
_HolderList = list[Holder]


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    program: str | None = None,
    hub_uid: int | None = None,
    reconnect: bool = True,
    reconnect_timeout: float = DEFAULT_MS_RECONNECT / 1000,
    timeout: float | None = DEFAULT_MS_CONNECT / 1000,
) -> Hub:
    """Joins the hub of this user. It does not start one: run `cuda-ipc hub serve`.

    `socket` is its path; by default CUDA_IPC_SOCKET, else one in the user's runtime folder.
    `program` names this process to others. `hub_uid` is one more user whose hub is trusted; by
    default CUDA_IPC_HUB_UID. With `reconnect`, a thread of this package looks for the next hub for
    `reconnect_timeout` seconds if this one crashes, and registers again what is held. Raises
    HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, UNTRUSTED_PEER, PROTOCOL_MISMATCH, LIMIT_EXCEEDED, TIMEOUT.
    """
    path = hub_socket_path(socket)
    deadline = Deadline(f"connect to the hub at {path}", timeout)
    name = own_program() if program is None else program
    link = Link(path, trusted_users(hub_uid), name, reconnect, reconnect_timeout, deadline)
    return Hub(link)


async def connect_async(
    socket: str | os.PathLike[str] | None = None,
    *,
    program: str | None = None,
    hub_uid: int | None = None,
    reconnect: bool = True,
    reconnect_timeout: float = DEFAULT_MS_RECONNECT / 1000,
    timeout: float | None = DEFAULT_MS_CONNECT / 1000,
) -> Hub:
    """As `connect`, for asyncio."""
    return await in_thread(
        Deadline("connect", timeout),
        lambda: connect(
            socket,
            program=program,
            hub_uid=hub_uid,
            reconnect=reconnect,
            reconnect_timeout=reconnect_timeout,
            timeout=timeout,
        ),
        lambda hub: hub.close(),
    )


def _allocate(device: str, byte_length: int) -> tuple[Memory, str | None, int]:
    """Memory on the device, the UUID of a GPU, and the bytes that were allocated."""
    if device == "host":
        allocated = max(PAGE_BYTES, round_up(byte_length, PAGE_BYTES))
        return HostAllocation(allocated), None, allocated
    kind, _, ordinal = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind != "cuda" or not ordinal.isdecimal():
        raise CudaIpcError(
            "INVALID_DEVICE", f'Cannot use the device {device!r}: wanted "host" or "cuda:N"'
        )
    from ._cuda import CudaAllocation, context_at, full_uuid

    context = context_at(int(ordinal))
    memory = CudaAllocation(context, byte_length)
    return memory, full_uuid(context), memory.length


def _map_line(fd: int, offset: int, place: Place) -> Words:
    from ._memory import check_file

    check_file(fd, place.allocation_byte_length, "the memory file")
    return Words(fd, offset + LINE_BYTES, writable=False)


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    found = dict(metadata or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must be strings by name, and {key!r} is {value!r}")
    return found
