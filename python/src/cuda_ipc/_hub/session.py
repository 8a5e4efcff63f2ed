"""What all methods of a hub need: requests that create and open objects, and their leases."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .._choices import Access, Replace
from .._connection import Result
from .._deadline import Deadline
from .._descriptors import MemorySource, check_name, checked_descriptor
from .._device_names import Device, device_name
from .._fds import SharedFds, close_all
from .._layout import Refused, require
from .._leases import HeldLease
from .._link import Link
from .._memory import Take, preallocate_file
from .._packets import checked_number
from ..errors import CudaIpcError

T = TypeVar("T")


def check_replace(replace: object) -> None:
    if not isinstance(replace, bool) and replace != "any":
        raise ValueError(f'replace must be True, False or "any", not {replace!r}')


def check_flag(name: str, value: object) -> None:
    """A word such as "no" would count as True."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def discard(handle: Any) -> None:
    """Takes back what was created, because its creator got an error or was cancelled.

    What has taken over the name of an older object, or may have, keeps it: else it would be free.
    """
    link, held = handle._link, handle._held
    if not held.replaces:
        link.names.take_back(held)
        end = getattr(handle, "end", handle.close)
        end()
    elif link.names.keep(held):
        held.created = handle
    else:
        handle.close()


class Opened:
    """The hub's answer to an open. It owns a use of the descriptors until it is closed."""

    def __init__(self, name: str, held: HeldLease, result: Result) -> None:
        self.name = name
        self.held = held
        self.result = result
        self.fds = held.fds.share()

    def require_fds(self, wanted: int) -> None:
        found = len(self.fds.fds)
        require(found == wanted, f"{found} descriptors came with it, wanted {wanted}")


class Session:
    """One connection's worth of created and opened objects."""

    def __init__(self, link: Link, default_device: str | None = None) -> None:
        self._link = link
        self._default_device = default_device
        self._handles: weakref.WeakSet[Any] = weakref.WeakSet()
        self._keeping = threading.RLock()
        #: Workers and clients. Their threads use the hub, so they are closed before the rest.
        self._services: set[Any] = set()

    def _device(self, device: Device | None) -> str:
        """As "host" or "cuda:N". Raises INVALID_DEVICE, TypeError."""
        return device_name(device, self._default_device)

    def _begin(self, attempt: str, timeout: float | Deadline | None) -> Deadline:
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(attempt, timeout)
        deadline.attempt = attempt
        self._link.check(attempt)
        return deadline

    def _taker(self, preallocate: bool, deadline: Deadline) -> Take | None:
        """Takes the pages of new files, if that is wanted."""
        check_flag("preallocate", preallocate)
        if not preallocate:
            return None
        return lambda fd, length: preallocate_file(fd, length, deadline, self._link.check)

    def _keep(self, handle: T, created: HeldLease | None = None) -> T:
        """Closes it with the hub. Raises CLOSED if another thread has closed the hub meanwhile."""
        with self._keeping:
            self._handles.add(handle)
            if created is not None:
                created.created = handle
        if self._link.ended is not None:
            handle.close()  # type: ignore[attr-defined]
            self._link.check("open an object")
        return handle

    def _kept(self) -> list[Any]:
        # WHY locked: a set that grows meanwhile cannot be listed.
        with self._keeping:
            return list(self._handles)

    def _register(
        self,
        name: str,
        descriptor: dict[str, Any],
        fds: SharedFds,
        pinned: bool,
        deadline: Deadline,
        sharing: dict[str, Any] | None = None,
        replace: Replace = False,
        workers: tuple[int, ...] = (),
    ) -> HeldLease:
        """Takes over the descriptors."""
        fields: dict[str, Any] = {
            "name": name,
            "lifetime": "pinned" if pinned else "held",
            "descriptor": descriptor,
        }
        if sharing is not None:
            fields["sharing"] = sharing
        if replace:
            fields["replace"] = replace
        if workers:
            fields["workers"] = [*workers]

        def keep(result: Result, unwanted: tuple[int, ...]) -> HeldLease:
            close_all(unwanted)
            number = checked_number(result, "object")
            lease = checked_number(result, "lease")
            owned = fds.share()
            try:
                held = HeldLease(self._link, number, lease, "owner", owned)
                held.named = name
                held.pinned = pinned
                held.replaces = replace is not False
                self._link.hold(held)
            except BaseException:
                owned.close()
                raise
            return held

        try:
            held: HeldLease = self._link.ask("create", fields, deadline, fds.fds, keep).kept
        finally:
            fds.close()
        return held

    def _publish(self, held: HeldLease, handle: Any, deadline: Deadline) -> None:
        try:
            # WHY before: a signal may come at any line, and the older object may be nameless then.
            if held.replaces:
                held.created = handle
            self._link.publish(held, deadline)
        except BaseException:
            discard(handle)
            raise

    def _open(
        self,
        name: str,
        access: Access,
        wait: bool,
        timeout: float | Deadline | None,
        role: str | None,
        use: Callable[[Opened, MemorySource, Mapping[str, Any]], T],
    ) -> T:
        check_name(name)
        check_flag("wait", wait)
        if access not in ("read", "read-write", "copy"):
            raise ValueError(f'access must be "read", "read-write" or "copy", not {access!r}')
        # The hub lends a copy as it lends what is read.
        access = "read" if access == "copy" else access
        deadline = self._begin(f'open "{name}"', timeout)
        fields: dict[str, Any] = {"name": name, "access": access, "wait": wait}
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
        opened = Opened(name, reply.kept, reply.result)
        try:
            if role != "reader" and "place" in opened.result:
                found = f"the hub gave a reader's seat ({opened.result['place']!r})"
                raise CudaIpcError("INVALID_MESSAGE", f'Cannot open "{name}": {found}')
            if len(opened.fds.fds) == 0:
                raise Refused("it came without file descriptors")
            source, content = checked_descriptor(reply.result.get("descriptor"))
            return self._keep(use(opened, source, content))
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
