"""The leases that this process holds, over all connections, and the memory behind each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ._fds import SharedFds

if TYPE_CHECKING:
    from ._legacy import OwnedMemory, SharedMemory
    from ._link import Link

#: Leases that can bring the most descriptors are restored first.
_ORDER = ("owner", "read-write", "read")


class HeldLease:
    """One lease. Its descriptors stay open, to be brought to a hub that has lost them."""

    __slots__ = (
        "_link",
        "access",
        "created",
        "dropped",
        "fds",
        "is_drained",
        "is_part",
        "lasts_with_memory",
        "lease",
        "named",
        "object",
        "on_goodbye",
        "on_lost",
        "owned",
        "pinned",
        "replaces",
        "role",
        "shared",
    )

    def __init__(
        self,
        link: Link,
        object_number: int,
        lease: int,
        access: str,
        fds: SharedFds,
        role: str | None = None,
    ) -> None:
        self._link = link
        self.object = object_number
        self.lease = lease
        self.access = access
        self.fds = fds
        self.role = role
        # A reader of a channel has some of its descriptors, and brings them for itself.
        self.is_part = role == "reader"
        self.on_lost: Callable[[], object] | None = None
        # Called before the hub is told to end all leases.
        self.on_goodbye: Callable[[], object] | None = None
        # The name of an object of this process, and whether it stays without this lease.
        self.named: str | None = None
        self.pinned = False
        #: Whether it takes over the name of an older object.
        self.replaces = False
        # The program has let go of the handle. The lease stays as long as it keeps the name.
        self.dropped = False
        # Channels, timelines and shared tensors of this process are kept here until they are
        # closed. Otherwise they would end as soon as the program lets go of the handle.
        self.created: object = None
        # The array of a framework that is shared without a copy.
        self.shared: object = None
        # Memory of this process that only it keeps alive, or that others must not see changed. It
        # stays until no other process has a lease: the hub is asked for that once, when this lease
        # is released.
        self.owned: OwnedMemory | SharedMemory | None = None
        self.is_drained = False
        # The lease of such memory of another process ends with its mapping.
        self.lasts_with_memory = False

    @property
    def order(self) -> int:
        return _ORDER.index(self.access)

    @property
    def is_held(self) -> bool:
        """False if the hub does not know the lease any more."""
        return self._link.holds(self)

    def release(self) -> None:
        """Gives the lease back. The second time it does nothing."""
        if not self.lasts_with_memory:
            self._link.release(self)

    def release_with_memory(self) -> None:
        self.lasts_with_memory = False
        self._link.release(self)

    def unname(self) -> None:
        """Its object has lost its name. Nothing keeps it but the program and other processes."""
        if self.shared is None:
            return
        from ._legacy import SharedMemory

        # WHY: others read the old values until they close it, and the framework would reuse them.
        if self.owned is None:
            self.owned = SharedMemory(self.shared)
        self.shared = self.created = None

    def lose(self) -> None:
        self.created = self.shared = None
        if self.owned is not None:
            self.owned.end()
            self.owned = None
        # Another thread may close what uses the lease meanwhile.
        on_lost = self.on_lost
        if on_lost is not None:
            on_lost()
        # WHY after it: `on_lost` rings a bell that is one of them.
        self.fds.close()
