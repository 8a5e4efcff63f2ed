"""Gives an array of a framework a name: without a copy where its memory can be exported."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._choices import Replace, Sharing
from ._descriptors import check_name, make_descriptor
from ._fds import SharedFds
from ._foreign import Foreign, foreign
from ._hub.session import discard
from ._hub.sharing import checked_sharing
from ._layout import Layout
from .errors import CudaError, CudaIpcError
from .shared import SharedArray

if TYPE_CHECKING:
    from ._deadline import Deadline
    from ._hub.arrays import HubArrays
    from ._leases import HeldLease
    from ._legacy import OwnedMemory
    from ._link import Link
    from ._memory import Memory


class SharedTensor(SharedArray):
    """An array of a framework that has a name.

    Without a copy its memory keeps the framework's array until `close()`, so that nobody else gets
    that memory. With the mechanism "legacy", or once it has lost its name, it does so until no
    other process has it open, either. What is written to that array, others see.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        memory: Memory,
        layout: Layout,
        mechanism: str,
        why: str | None,
    ) -> None:
        super().__init__(link, name, held, memory, layout)
        #: What keeps the memory: "vmm" and "memfd" memory outlives this process while others have
        #: it open. The name of "legacy" memory ends with this process.
        self.mechanism = mechanism
        #: True if the shared memory has a copy of the values.
        self.copied = why is not None
        #: Why they had to be copied, or None.
        self.why = why


class _Exported(NamedTuple):
    """Memory that can be shared as it is."""

    memory: Memory
    uuid: str | None
    base: int
    length: int
    fds: list[int]
    #: If only this process keeps the memory.
    owned: OwnedMemory | None = None


class Wanted(NamedTuple):
    """What the name is to be."""

    copy: bool
    pinned: bool
    sharing: Sharing | None
    replace: Replace = False
    preallocate: bool = False


def share(
    hub: HubArrays,
    name: str,
    tensor: Any,
    wanted: Wanted,
    timeout: float | Deadline | None,
) -> SharedTensor:
    """As `Hub.share`."""
    users = checked_sharing(wanted.sharing)
    deadline = hub._begin(f'share "{check_name(name)}"', timeout)
    source = foreign(tensor)
    exported = "it was asked for" if wanted.copy else _exported(source, wanted)
    if isinstance(exported, str):
        return _copied(hub, name, wanted, source, deadline, exported)
    offset = source.address - exported.base
    layout = source.layout._replace(byte_offset=offset)
    fds, owned = SharedFds(exported.fds), exported.owned
    try:
        if offset % layout.dtype.alignment != 0:
            return _copied(hub, name, wanted, source, deadline, "its elements are not aligned")
        content = {"kind": "array", "array": layout.spec()}
        handle = None if owned is None else owned.handle
        length = exported.length
        descriptor = make_descriptor(exported.uuid, length, length, content, handle)
        held = hub._register(
            name, descriptor, fds.share(), wanted.pinned, deadline, users, wanted.replace
        )
    finally:
        fds.close()
    held.owned, held.shared = owned, exported.memory
    mechanism = str(descriptor["mechanism"])
    made = SharedTensor(hub._link, name, held, exported.memory, layout, mechanism, None)
    return _published(hub, made, held, deadline)


def _published(
    hub: HubArrays, made: SharedTensor, held: HeldLease, deadline: Deadline
) -> SharedTensor:
    try:
        made.publish(deadline.remaining)
    except BaseException:
        discard(made)
        raise
    # Without a copy it is the program's memory, which must stay as it is while others read it.
    return hub._keep(made, held if made.why is None else None)


def _exported(source: Foreign, wanted: Wanted) -> _Exported | str:
    """The exported memory, or why it must be copied."""
    if source.layout.size == 0:
        return "it has no elements"
    low, high = source.span()
    if source.device[0] == 1:
        from ._shareable import own_host_memory

        own = own_host_memory(low, high - low)
        if own is None:
            return (
                "memory of the heap cannot be shared; memory of hub.create() and of "
                "cuda_ipc.torch.empty() can"
            )
        return _Exported(own, None, own.address, own.length, own.fds())
    if source.device[0] != 2:
        return f"memory of the DLPack device {source.device[0]} cannot be shared"
    return _exported_from_gpu(source, low, high, wanted)


def _exported_from_gpu(source: Foreign, low: int, high: int, wanted: Wanted) -> _Exported | str:
    import os

    from ._cuda import context_at, full_uuid
    from ._cuda_handles import BorrowedCudaMemory, export_address

    context = context_at(source.device[1])
    try:
        found = export_address(context, low)
    except CudaError:
        return _by_handle(source, low, high, wanted)
    except CudaIpcError as lacking:
        if lacking.code != "DRIVER_TOO_OLD":
            raise
        return _by_handle(source, low, high, wanted)
    if high > found.base + found.length:
        os.close(found.fd)
        return "it lies in several allocations of virtual memory"
    memory = BorrowedCudaMemory(context, found.base, found.length, source.owner)
    return _Exported(memory, full_uuid(context), found.base, found.length, [found.fd])


def _by_handle(source: Foreign, low: int, high: int, wanted: Wanted) -> _Exported | str:
    """Memory that no descriptor leads to: of cudaMalloc, or of a pool."""
    from ._cuda import context_at, full_uuid
    from ._cuda_handles import BorrowedCudaMemory, handle_of
    from ._legacy import OwnedMemory

    context = context_at(source.device[1])
    try:
        found = handle_of(context, low)
    except CudaIpcError as refused:
        return (
            f"its allocator made it so that it cannot be exported ({refused.code}: memory of "
            "cudaMallocAsync and of other pools); memory of cuda_ipc.torch.shareable() and of "
            "cuda_ipc.torch.empty() can be shared"
        )
    if wanted.pinned:
        return "a pinned object outlives this process, and memory of cudaMalloc does not"
    if wanted.sharing is not None and wanted.sharing.get("with") != "private":
        return (
            "other users could write to all of its allocation, where other arrays lie, too: a "
            "handle of cudaMalloc gives no less"
        )
    base = low - found.byte_offset
    if high > base + found.length:
        return "it lies in several allocations"
    memory = BorrowedCudaMemory(context, base, found.length, source.owner)
    owned = OwnedMemory(memory, found.handle)
    return _Exported(memory, full_uuid(context), base, found.length, [owned.fd], owned)


def _copied(
    hub: HubArrays, name: str, wanted: Wanted, source: Foreign, deadline: Deadline, why: str
) -> SharedTensor:
    """One copy, into new memory on the same device."""
    if not source.layout.is_packed:
        if source.packed is None:
            raise CudaIpcError("UNSUPPORTED", "Cannot share a tensor: it is not contiguous")
        source = foreign(source.packed())
    layout = source.layout
    kind, ordinal = source.device
    device = "host" if kind == 1 else f"cuda:{ordinal}"
    array = hub.create(
        name,
        layout.dtype.name,
        layout.shape,
        device=device,
        pinned=wanted.pinned,
        replace=wanted.replace,
        preallocate=wanted.preallocate,
        sharing=wanted.sharing,
        timeout=deadline.remaining,
    )
    try:
        memory = array._mapped("share")
        _copier(kind)(memory, array._layout.byte_offset, source)
    except BaseException:
        array.close()
        raise
    mechanism = "memfd" if kind == 1 else "vmm"
    made = SharedTensor(hub._link, name, array._held, memory, array._layout, mechanism, why)
    array.forget()
    return _published(hub, made, made._held, deadline)


def _copier(kind: int) -> Callable[[Any, int, Foreign], None]:
    return _copy_on_host if kind == 1 else _copy_on_gpu


def _copy_on_host(memory: Any, offset: int, source: Foreign) -> None:
    size = source.layout.nbytes
    if size > 0:
        # SAFETY: the framework says that the elements lie there, and `owner` keeps them.
        ctypes.memmove(memory.address + offset, source.address, size)


def _copy_on_gpu(memory: Any, offset: int, source: Foreign) -> None:
    from ._cuda_handles import copy_on_device

    if source.layout.nbytes > 0:
        to = memory.address + offset
        copy_on_device(memory.context, to, source.address, source.layout.nbytes)
