"""Gives an array of a framework a name: without a copy where its memory can be exported."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._descriptors import check_name, make_descriptor
from ._fds import SharedFds
from ._foreign import Foreign, foreign
from ._hub.sharing import checked_sharing
from ._layout import Layout
from .errors import CudaError, CudaIpcError
from .shared import SharedArray

if TYPE_CHECKING:
    from ._deadline import Deadline
    from ._hub.arrays import HubArrays
    from ._leases import HeldLease
    from ._link import Link
    from ._memory import Memory


class SharedTensor(SharedArray):
    """An array of a framework that has a name.

    Without a copy its memory keeps the framework's array until `close()`, so that nobody else gets
    that memory. What is written to that array, others see.
    """

    def __init__(
        self,
        link: Link,
        name: str,
        held: HeldLease,
        memory: Memory,
        layout: Layout,
        why: str | None,
    ) -> None:
        super().__init__(link, name, held, memory, layout)
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


class _Wanted(NamedTuple):
    """What the name is to be."""

    name: str
    pinned: bool
    sharing: Mapping[str, Any] | None


def share(
    hub: HubArrays,
    name: str,
    tensor: Any,
    pinned: bool,
    sharing: Mapping[str, Any] | None,
    timeout: float | Deadline | None,
) -> SharedTensor:
    """As `Hub.share`."""
    wanted, users = _Wanted(name, pinned, sharing), checked_sharing(sharing)
    deadline = hub._begin(f'share "{check_name(name)}"', timeout)
    source = foreign(tensor)
    exported = _exported(source)
    if isinstance(exported, str):
        return _copied(hub, wanted, source, deadline, exported)
    offset = source.address - exported.base
    layout = source.layout._replace(byte_offset=offset)
    fds = SharedFds(exported.fds)
    try:
        if offset % layout.dtype.alignment != 0:
            return _copied(hub, wanted, source, deadline, "its elements are not aligned")
        content = {"kind": "array", "array": layout.spec()}
        descriptor = make_descriptor(exported.uuid, exported.length, exported.length, content)
        held = hub._register(name, descriptor, fds.share(), pinned, deadline, users)
    finally:
        fds.close()
    made = SharedTensor(hub._link, name, held, exported.memory, layout, None)
    return _published(hub, made, held, deadline)


def _published(
    hub: HubArrays, made: SharedTensor, held: HeldLease, deadline: Deadline
) -> SharedTensor:
    try:
        made.publish(deadline.remaining)
    except BaseException:
        made.close()
        raise
    return hub._keep(made, held)


def _exported(source: Foreign) -> _Exported | str:
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
    return _exported_from_gpu(source, low, high)


def _exported_from_gpu(source: Foreign, low: int, high: int) -> _Exported | str:
    import os

    from ._cuda import context_at, full_uuid
    from ._cuda_handles import BorrowedCudaMemory, export_address

    context = context_at(source.device[1])
    try:
        found = export_address(context, low)
    except CudaError as refused:
        return (
            "its allocator made it so that no descriptor can be exported "
            f"({refused.name}); memory of cuda_ipc.torch.shareable() and of "
            "cuda_ipc.torch.empty() can be shared. A handle of 64 bytes needs no copy, either: "
            "cuda_ipc.interop.handle_of()"
        )
    except CudaIpcError as lacking:
        if lacking.code != "DRIVER_TOO_OLD":
            raise
        return lacking.message
    if high > found.base + found.length:
        os.close(found.fd)
        return "it lies in several allocations of virtual memory"
    memory = BorrowedCudaMemory(context, found.base, found.length, source.owner)
    return _Exported(memory, full_uuid(context), found.base, found.length, [found.fd])


def _copied(
    hub: HubArrays, wanted: _Wanted, source: Foreign, deadline: Deadline, why: str
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
        wanted.name,
        layout.dtype.name,
        layout.shape,
        device=device,
        pinned=wanted.pinned,
        sharing=wanted.sharing,
        timeout=deadline.remaining,
    )
    try:
        memory = array._mapped("share")
        _copier(kind)(memory, array._layout.byte_offset, source)
    except BaseException:
        array.close()
        raise
    made = SharedTensor(hub._link, wanted.name, array._held, memory, array._layout, why)
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
