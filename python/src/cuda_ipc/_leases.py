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
        "is_unsure",
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
        #: It replaces one, and the hub has not said yet whether the name has passed to it.
        self.is_unsure = False
        # The program has let go of the handle. The lease stays as long as it keeps the name.
        self.dropped = False
        # Channels, timelines and shared tensors of this process are kept here until they are
        # closed or have lost their name. Otherwise they would end as soon as the program lets go
        # of the handle.
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
        if self.shared is not None:
            from ._legacy import SharedMemory

            # WHY: others read the old values until they close it. The framework would reuse them.
            if self.owned is None:
                self.owned = SharedMemory(self.shared)
            self.shared = None
        self.created = None

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


class Names:
    """The names of this client's objects, and what becomes of an object that loses its name."""

    def __init__(self, link: Link) -> None:
        self._link = link
        #: By name, the objects of this client that have their name.
        self._held: dict[str, HeldLease] = {}

    def given_to(self, held: HeldLease) -> None:
        """The object has its name now. An earlier one of this client has lost it."""
        if held.named is not None and not self._has(held):
            self.taken_from(held.named)
            self._held[held.named] = held
        # WHY last: a signal may come at any line.
        held.is_unsure = False

    def taken_from(self, name: str) -> None:
        """This client's object of this name has lost it, and ends if the program has let go."""
        earlier = self._held.pop(name, None)
        if earlier is None:
            return
        if earlier.dropped:
            self._link.release(earlier)
        earlier.unname()

    def forget(self, held: HeldLease) -> None:
        """Its lease goes back."""
        if held.named is not None and self._has(held):
            del self._held[held.named]

    def take_back(self, held: HeldLease) -> None:
        """Takes the name of a new pinned object away, which its lease does not."""
        if held.pinned and held.named is not None:
            self.forget(held)
            self._link.post("remove", {"name": held.named, "object": held.object})

    def keep(self, held: HeldLease) -> bool:
        """Whether a lease whose handle the program has let go of must stay, to keep a name."""
        if held.pinned or not (held.is_unsure or self._has(held)):
            return False
        held.dropped = True
        if held.is_unsure:
            self.settle(held)
        return True

    def settle(self, held: HeldLease) -> None:
        """Publishes an object again whose publisher has given up and let go of it.

        The hub answers that the name has passed to it, or that it never will.
        """

        def answered(failure: BaseException | None) -> None:
            if failure is None and held.is_held:
                self.given_to(held)
            else:
                held.is_unsure = False
                self._link.release(held)

        self._link.post("publish", {"object": held.object}, answered)

    def _has(self, held: HeldLease) -> bool:
        return held.named is not None and self._held.get(held.named) is held
