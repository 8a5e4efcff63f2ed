"""Arrays and bundles of a hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._bundle_index import Index, read_index, write_index
from .._choices import Access, DTypeLike, Replace, Sharing
from .._data import data_of
from .._deadline import Deadline
from .._descriptors import (
    MemorySource,
    check_name,
    make_descriptor,
    wrong_kind,
)
from .._device_names import Device
from .._fds import SharedFds
from .._layout import Layout, checked_layout, only, packed_layout
from .._memory import Memory, round_up
from .._waiting import async_form
from ..shared import REQUEST_S, SharedArray, SharedBundle, private_copy
from .allocation import allocate
from .session import Opened, Session, check_flag, check_replace, discard
from .sharing import checked_sharing

Shape = int | Sequence[int]
#: Bytes.
BUNDLE_ALIGNMENT = 256
_ARRAY = frozenset(("dtype", "shape", "strides", "byteOffset"))


def slot_alignment(device: str) -> int:
    """Of the slots of a channel on this device, in bytes."""
    return 64 if device == "host" else BUNDLE_ALIGNMENT


class HubArrays(Session):
    def create(
        self,
        name: str,
        dtype: DTypeLike,
        shape: Shape,
        *,
        device: Device | None = None,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        sharing: Sharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """New memory for one array, all zero on the host. Fill it, then `publish()`.

        The name stays until `close()`, even if the program lets go of the published object. Then
        it ends once another object of this client has the name.

        `dtype` is a name such as "float32", or a dtype of NumPy or PyTorch. `shape` is in elements.
        `device` is "host", "cuda:N", N, "auto" (the first GPU, else the host) or a `torch.device`;
        by default that of `connect`. A `pinned` array stays until it is removed; another one ends
        with its last lease. `sharing` names the users who may open it beside yours and root:
        `{"with": "group"}` those of this process's group, `{"with": "all"}` all that the hub
        serves; with `"access": "read-write"` also for writing.

        With `replace` an older object of this name keeps it until `publish()`, which passes the
        name on. It is never free in between, and who has the old object keeps it. `True` replaces
        an object of the same kind, and raises WRONG_KIND for any other; "any" replaces any object.

        With `preallocate` all of the memory is taken now, or the call raises OUT_OF_MEMORY. By
        default host memory is taken page by page when a process first writes to it; if none is left
        then, that process ends. Memory of a GPU is always taken at once.

        Raises NAME_TAKEN, INVALID_NAME, UNSUPPORTED_DTYPE, INVALID_DEVICE, DEVICE_NOT_FOUND,
        OUT_OF_MEMORY, LIMIT_EXCEEDED, TIMEOUT;
        PERMISSION_DENIED if another user owns the older object.
        """
        check_replace(replace)
        check_flag("pinned", pinned)
        layout, users = packed_layout(dtype, shape), checked_sharing(sharing)
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        take = self._taker(preallocate, deadline)
        given = allocate(self._device(device), layout.nbytes, take)
        return self._named(name, layout, given, pinned, users, deadline, replace)

    def put(
        self,
        name: str,
        data: Any,
        *,
        dtype: DTypeLike | None = None,
        shape: Shape | None = None,
        device: Device | None = None,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        sharing: Sharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """Creates an array, copies `data` into it and publishes it.

        `data` is an array on the host (NumPy, PyTorch, anything with a buffer), or bytes with
        `dtype` and `shape`. A `shape` alone arranges its elements anew. With `replace` an older
        object of this name keeps it until `data` is copied. Raises as `create`; TypeError,
        ValueError.
        """
        check_replace(replace)
        check_flag("pinned", pinned)
        found, lengths, view = data_of(data, dtype, shape)
        layout, users = packed_layout(found, lengths), checked_sharing(sharing)
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        take = self._taker(preallocate, deadline)
        given = allocate(self._device(device), layout.nbytes, take)
        array = self._named(name, layout, given, pinned, users, deadline, replace)
        try:
            array.write(view)
            array.publish(deadline.remaining)
        except BaseException:
            discard(array)
            raise
        return array

    def _named(
        self,
        name: str,
        layout: Layout,
        given: tuple[Memory, str | None, int],
        pinned: bool,
        users: dict[str, str] | None,
        deadline: Deadline,
        replace: Replace,
    ) -> SharedArray:
        """An array in this new memory, which is not published yet."""
        memory, uuid, allocated = given
        content = {"kind": "array", "array": layout.spec()}
        descriptor = make_descriptor(uuid, layout.nbytes, allocated, content)
        fds = SharedFds(memory.fds())
        held = self._register(name, descriptor, fds, pinned, deadline, users, replace)
        return self._keep(SharedArray(self._link, name, held, memory, layout))

    def open(
        self,
        name: str,
        *,
        access: Access = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedArray:
        """Opens a published array and maps it.

        With `wait`, it waits until the name is published; `timeout` is in seconds, and None waits
        without a limit. `access` is "read", "read-write" or "copy". With "copy" your writes stay
        in this process: a page of the host is copied when you first write to it, and until then
        shows later writes of others; memory of a GPU is copied at once. Raises NOT_FOUND without
        `wait`; TIMEOUT, which says what the name waits for; WRONG_KIND, READ_ONLY,
        PERMISSION_DENIED, INVALID_DESCRIPTOR.
        """

        def use(opened: Opened, source: MemorySource, content: Mapping[str, Any]) -> SharedArray:
            if content.get("kind") != "array":
                raise wrong_kind(name, content.get("kind"), "an array")
            spec = content.get("array")
            only(spec, _ARRAY, "the array")
            layout = checked_layout(spec, source.byte_length)
            opened.require_fds(1)
            memory = source.map(opened.fds.fds[0], access != "read-write", access == "copy")
            if source.handle is not None:
                memory.keep(opened.held)  # type: ignore[attr-defined]
            if access == "copy" and memory.buffer is None:
                memory, layout = private_copy(memory, layout)
            return SharedArray(self._link, name, opened.held, memory, layout)

        return self._open(name, access, wait, timeout, None, use)

    create_async = async_form(create, discard)
    put_async = async_form(put, discard)
    open_async = async_form(open)

    # ------------------------------------------------ bundles

    def create_bundle(
        self,
        name: str,
        arrays: Mapping[str, tuple[DTypeLike, Shape]],
        metadata: Mapping[str, str] | None = None,
        *,
        device: Device | None = None,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        sharing: Sharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> SharedBundle:
        """New memory for many arrays, given as `{name: (dtype, shape)}`. Fill, then `publish()`.

        The values of `metadata` are strings. `replace` and `preallocate` are as for `create`.
        Raises as `create`.
        """
        check_replace(replace)
        check_flag("pinned", pinned)
        metadata, users = _checked_metadata(metadata), checked_sharing(sharing)
        layouts: dict[str, Layout] = {}
        end = 0
        if not isinstance(arrays, Mapping):
            raise TypeError(
                "arrays must be (dtype, shape) by name, such as {'w': ('float32', (2, 3))}, not "
                f"{type(arrays).__name__}"
            )
        for key, wanted in arrays.items():
            if not isinstance(key, str):
                raise TypeError(f"the name of an array must be a string, not {key!r}")
            dtype, shape = _dtype_and_shape(key, wanted)
            layouts[key] = packed_layout(dtype, shape, round_up(end, BUNDLE_ALIGNMENT))
            end = layouts[key].byte_offset + layouts[key].nbytes
        deadline = self._begin(f'create "{check_name(name)}"', timeout)
        take = self._taker(preallocate, deadline)
        memory, uuid, allocated = allocate(self._device(device), end, take)
        index, length = write_index(Index(layouts, metadata))
        content = {"kind": "bundle", "arrayCount": len(layouts), "indexByteLength": length}
        descriptor = make_descriptor(uuid, end, allocated, content)
        fds = SharedFds([*memory.fds(), index])
        held = self._register(name, descriptor, fds, pinned, deadline, users, replace)
        return self._keep(SharedBundle(self._link, name, held, memory, layouts, metadata))

    def open_bundle(
        self,
        name: str,
        *,
        access: Access = "read",
        wait: bool = True,
        timeout: float | None = REQUEST_S,
    ) -> SharedBundle:
        """Opens a published bundle, such as a model that `cuda-ipc put` loaded. As `open`.

        On a GPU, `access="copy"` copies each array when you first ask for it.
        """
        return self._open_bundle(name, access, wait, timeout, access == "copy")

    def _open_bundle(
        self, name: str, access: Access, wait: bool, timeout: float | None, private: bool
    ) -> SharedBundle:
        """With `private`, host memory is copied on write even if it is opened for reading."""

        def use(opened: Opened, source: MemorySource, content: Mapping[str, Any]) -> SharedBundle:
            if content.get("kind") != "bundle":
                raise wrong_kind(name, content.get("kind"), "a bundle")
            opened.require_fds(2)
            index = read_index(content, opened.fds.fds[1], source.byte_length)
            memory = source.map(opened.fds.fds[0], access != "read-write", private)
            bundle = SharedBundle(
                self._link, name, opened.held, memory, index.layouts, index.metadata
            )
            if access == "copy" and memory.buffer is None:
                bundle.copies = {}
            return bundle

        return self._open(name, access, wait, timeout, None, use)

    create_bundle_async = async_form(create_bundle, discard)
    open_bundle_async = async_form(open_bundle)


def _dtype_and_shape(key: str, wanted: object) -> tuple[DTypeLike, Shape]:
    # WHY the first one is looked at: (2, 3) is a shape without its dtype.
    if not isinstance(wanted, (tuple, list)) or len(wanted) != 2 or isinstance(wanted[0], int):
        shown = repr(wanted) if isinstance(wanted, (tuple, list)) else type(wanted).__name__
        raise TypeError(
            f"array {key!r} must be given as (dtype, shape), such as ('float32', (2, 3)), not "
            f"{shown[:60]}. Copy its values into the bundle before publish()"
        )
    return wanted[0], wanted[1]


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    found = dict(metadata or {})
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must be strings by name, and {key!r} is {value!r}")
    return found
