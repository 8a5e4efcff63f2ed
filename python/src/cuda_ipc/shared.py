"""Arrays and bundles that have a name on the hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ._choices import Kind
from ._closing import ClosingAsync, OfProcess
from ._deadline import Deadline
from ._fds import is_finalizing
from ._keywords import explains_keywords
from ._layout import Layout
from ._memory import Memory, is_on_gpu
from ._protocol import DEFAULT_MS_REQUEST
from ._waiting import async_form, off_the_loop
from .arrays import Array, HandleState
from .errors import CudaIpcError

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._link import Link

REQUEST_S = DEFAULT_MS_REQUEST / 1000


def private_copy(memory: Memory, layout: Layout) -> tuple[Memory, Layout]:
    """A copy of an array of a GPU in memory of its own."""
    from ._cuda_copy import CudaCopy

    low, high = layout.bounds()
    copy = CudaCopy(memory, low, high - low)
    return copy, layout._replace(byte_offset=layout.byte_offset - low)


class _Lease(ClosingAsync, OfProcess):
    """The lease of an object: `publish`, and `close`, which leaving `with` calls."""

    _link: Link
    _held: HeldLease
    _memory: Memory | None
    _state: HandleState | None = None

    def _take(self, link: Link, held: HeldLease, memory: Memory, state: HandleState) -> None:
        self._link = link
        self._held = held
        self._memory = memory
        self._state = state

    @property
    def name(self) -> str:
        return self._state.name if self._state is not None else ""

    @property
    def closed(self) -> bool:
        return self._state is None or self._state.closed

    @explains_keywords
    def publish(self, timeout: float | None = REQUEST_S) -> None:
        """Lets others open it. They see all that was written before.

        On a GPU it waits for the work of this process's context first. Raises NOT_OWNER if another
        process created it, HUB_GONE, TIMEOUT, CLOSED.
        """
        attempt = f'publish "{self.name}"'
        memory = self._memory  # another thread may close it
        if self.closed or memory is None:
            raise CudaIpcError("CLOSED", f"Cannot {attempt}: it was closed")
        deadline = Deadline(attempt, timeout)
        memory.finish()
        try:
            self._link.check(attempt)
            if not self._held.is_held:
                found = f"the hub at {self._link.path} has lost it"
                raise CudaIpcError("HUB_GONE", f"Cannot {attempt}: {found}")
            self._link.publish(self._held, deadline)
        except CudaIpcError as refused:
            if not self.closed:
                raise
            raise CudaIpcError("CLOSED", f"Cannot {attempt}: it was closed") from refused

    publish_async = async_form(publish, lambda _: None)

    def close(self) -> None:
        """Gives the lease back. Views keep the memory mapped. The second time it does nothing.

        Without views, a GPU's memory is unmapped. That waits for the work of this process's
        context.
        """
        if self._state is None or self._state.closed:
            return
        self._state.closed = True
        self._held.release()
        self._let_go()

    async def close_async(self) -> None:
        """As `close`, for asyncio. If the task is cancelled, it continues on its thread."""
        await off_the_loop(is_on_gpu(self._memory), self.close)

    def _let_go(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if is_finalizing() or self._state is None or self._state.closed:
            return
        if self._link.names.keep(self._held):
            self._state.closed = True
            self._let_go()
        else:
            self.close()


class SharedArray(_Lease, Array):
    """An array that has a name. It is created or opened by a `Hub`."""

    def __init__(
        self, link: Link, name: str, held: HeldLease, memory: Memory, layout: Layout
    ) -> None:
        state = HandleState(name)
        Array.__init__(self, state, memory, layout)
        self._take(link, held, memory, state)

    @property
    def memory_gone(self) -> bool:
        """True once the memory has gone with its owner, which "legacy" memory does.

        Then `tobytes()` and new views raise PEER_GONE. What existing views show is undefined.
        """
        return bool(getattr(self._mapped("use"), "gone", False))

    def __enter__(self) -> SharedArray:
        return self

    def forget(self) -> None:
        """Another object has taken the lease over. This one is closed, and gives nothing back."""
        if self._state is not None:
            self._state.closed = True

    def _let_go(self) -> None:
        Array._let_go(self)


class SharedBundle(_Lease, Mapping[str, Array]):
    """Many arrays in one memory, by name, with metadata. It is a read-only mapping of names."""

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        memory: Memory,
        layouts: Mapping[str, Layout],
        metadata: Mapping[str, str],
    ) -> None:
        self.metadata = dict(metadata)
        state = HandleState(name)
        self._layouts = dict(layouts)
        # On a GPU with access="copy": what was asked for so far.
        self.copies: dict[str, tuple[Memory, Layout]] | None = None
        self._take(link, held, memory, state)

    def __getitem__(self, name: str) -> Array:
        layout = self._layouts.get(name)
        if layout is None:
            raise KeyError(_no_array(self.name, name, self._layouts))
        memory = self._memory
        if memory is None:
            raise CudaIpcError("CLOSED", f'Cannot use bundle "{self.name}": it was closed')
        if self.copies is not None:
            if name not in self.copies:
                self.copies[name] = private_copy(memory, layout)
            return Array(self, *self.copies[name])
        # WHY not kept: an array that is in use keeps the bundle open, and not the other way round.
        return Array(self, memory, layout)

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Where the elements of each array lie."""
        return self._layouts

    def detach(self) -> tuple[Memory, HeldLease]:
        """Closes the bundle, and hands its memory and its lease to the caller."""
        memory = self._memory
        if self._state is None or self._state.closed or memory is None:
            raise CudaIpcError("CLOSED", f'Cannot use bundle "{self.name}": it was closed')
        self._state.closed = True
        self._let_go()
        return memory, self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._layouts)

    def __len__(self) -> int:
        return len(self._layouts)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __enter__(self) -> SharedBundle:
        return self

    def __repr__(self) -> str:
        return f"<SharedBundle {self.name!r} of {len(self._layouts)} arrays>"

    def _let_go(self) -> None:
        self._memory = self.copies = None


def _no_array(bundle: str, name: object, names: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(str(name), names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"bundle {bundle!r} has no array {name!r}{hint}"


class ObjectInfo:
    """What the hub says of an object."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name = str(entry["name"])
        #: The hub's number. Another object of the same name has another one.
        self.object = int(entry["object"])
        self.published = bool(entry["published"])
        self.pinned = entry["lifetime"] == "pinned"
        self.leases = int(entry["leases"])
        #: None when the owner's lease has ended.
        self.owner_pid = None if entry["ownerPid"] is None else int(entry["ownerPid"])
        self.owner_uid = int(entry["ownerUid"])
        #: False after a crash of the hub until somebody has brought the memory back.
        self.has_memory = bool(entry["hasMemory"])
        #: Unix time in milliseconds.
        self.created_at_ms = int(entry["createdAtMs"])
        #: Unix time in milliseconds when the last lease ended; None while there are leases.
        unheld = entry["unheldSinceMs"]
        self.unheld_since_ms = None if unheld is None else int(unheld)
        #: True if it has lost `name`, or has yet to take it over. Only its holders keep it.
        self.nameless = bool(entry.get("nameless", False))
        #: The oldest processes that hold it: only in `list(all=True)`, else empty.
        self.holders = [Holder(holder) for holder in entry.get("holders", ())]
        #: As in docs/protocol.md, "Descriptors".
        self.descriptor: dict[str, Any] = entry["descriptor"]

    @property
    def kind(self) -> Kind:
        kind: Kind = self.descriptor["content"]["kind"]
        return kind

    @property
    def byte_length(self) -> int:
        return int(self.descriptor["byteLength"])

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} of {self.byte_length} bytes, {self.leases} leases>"


class Holder:
    """A process that holds a lease."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.pid = int(entry["pid"])
        self.program = str(entry["program"])
        self.access: Literal["owner", "read", "read-write"] = entry["access"]
        #: For a channel.
        self.role: Literal["reader", "writer", "observer"] | None = entry.get("role")
        #: For a reader of a channel.
        self.place: int | None = entry.get("place")

    def __repr__(self) -> str:
        return f"<Holder {self.pid} {self.program!r} {self.role or self.access}>"
