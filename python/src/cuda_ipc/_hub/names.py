"""The names on a hub, and its state."""

from __future__ import annotations

from typing import Any

from .._deadline import Deadline
from .._descriptors import KINDS, check_name, is_name
from .._layout import Refused, integer, require
from .._waiting import async_form
from ..errors import CudaIpcError
from ..shared import REQUEST_S, Holder, ObjectInfo
from .session import Session


class HubNames(Session):
    def list(
        self, timeout: float | None = REQUEST_S, *, prefix: str = "", all: bool = False
    ) -> list[ObjectInfo]:
        """All objects that this user can open, in the order of their names.

        With `prefix`, those alone whose names begin with it. With `all`, objects follow that have
        lost their name and are still held (`nameless`), and each one has its `holders`. Raises
        INVALID_NAME, TIMEOUT.
        """
        deadline = self._begin("list what is shared", timeout)
        if prefix:
            check_name(prefix)
        # WHY without its last letter: a page begins after a name, and the prefix may be one itself.
        found = self._pages({"holders": True} if all else {}, prefix, prefix[:-1], deadline)
        if all:
            found += self._pages({"holders": True, "nameless": True}, "", "", deadline)
        return [info for info in found if info.name.startswith(prefix)]

    def _pages(
        self, fields: dict[str, Any], prefix: str, after: str, deadline: Deadline
    ) -> _ObjectList:
        found: _ObjectList = []
        while True:
            asked = {**fields, "after": after} if after else fields
            page = self._link.request("list", asked, deadline)
            objects, following = page.get("objects"), page.get("next", 0)
            if not isinstance(objects, _LIST) or not (following is None or is_name(following)):
                raise CudaIpcError("INVALID_MESSAGE", "Cannot list what is shared: no list came")
            found += [_checked_info(entry) for entry in objects]
            last = found[-1].name if found else ""
            if following is None or (prefix and last > prefix and not last.startswith(prefix)):
                return found
            # The same page again and again would fill this process's memory until the deadline.
            if following <= after:
                raise CudaIpcError(
                    "INVALID_MESSAGE",
                    f'Cannot list what is shared: the page after "{after}" is followed by that '
                    f'after "{following}", wanted a later name',
                )
            after = following

    def inspect(
        self, name: str, timeout: float | None = REQUEST_S
    ) -> tuple[ObjectInfo, _HolderList]:
        """One object, and the processes that hold it. Raises NOT_FOUND."""
        deadline = self._begin(f'inspect "{check_name(name)}"', timeout)
        found = self._link.request("inspect", {"name": name}, deadline)
        try:
            holders = [Holder(entry) for entry in found["holders"]]
        except (LookupError, TypeError, ValueError, OverflowError) as wrong:
            raise _no_sense("a holder", wrong) from wrong
        return _checked_info(found.get("object")), holders

    def status(self, timeout: float | None = REQUEST_S) -> dict[str, Any]:
        """The state of the hub, with the fields of docs/protocol.md, "status"."""
        return self._link.request("status", {}, self._begin("ask for the status", timeout))

    def remove(
        self,
        name: str,
        timeout: float | None = REQUEST_S,
        *,
        object: int | None = None,
        unheld_since_ms: int | None = None,
    ) -> None:
        """Takes a name away. Who holds the memory keeps it. Raises NOT_FOUND, NOT_OWNER.

        object: the number of the object, of an earlier entry of `list`. If another object has the
            name by now, it stays, and this raises STALE_HANDLE.
        unheld_since_ms: of an earlier entry of `list`. Then only an object that nobody has used
            since is removed, and any other raises IN_USE.
        """
        deadline = self._begin(f'remove "{check_name(name)}"', timeout)
        fields: dict[str, Any] = {"name": name}
        if object is not None:
            fields["object"] = object
        if unheld_since_ms is not None:
            fields["unheldSinceMs"] = unheld_since_ms
        self._link.request("remove", fields, deadline)
        self._link.names.taken_from(name)

    def stop(self, *, force: bool = False, timeout: float | None = REQUEST_S) -> None:
        """Ends the hub for good: all names are gone. Mapped memory stays.

        Raises HUB_IN_USE without `force` while there are objects or other clients.
        """
        self._link.request("stop", {"force": force}, self._begin("stop the hub", timeout))

    list_async = async_form(list)
    inspect_async = async_form(inspect)
    status_async = async_form(status)
    remove_async = async_form(remove)
    stop_async = async_form(stop)


def _no_sense(what: str, wrong: Exception) -> CudaIpcError:
    return CudaIpcError("INVALID_MESSAGE", f"The hub sent {what} that makes no sense: {wrong!r}")


def _checked_info(entry: Any) -> ObjectInfo:
    try:
        info = ObjectInfo(entry)
        require(is_name(entry["name"]), f"its name is {entry['name']!r}")
        require(type(entry["published"]) is bool, f"published is {entry['published']!r}")
        integer(entry["leases"], 0, "leases")
        if entry["ownerPid"] is not None:
            integer(entry["ownerPid"], 0, "ownerPid")
        require(info.kind in KINDS, f"it is of the kind {info.kind!r}")
        integer(info.descriptor["byteLength"], 0, "byteLength")
        device = info.descriptor["device"]["kind"]
        require(device in ("host", "cuda"), f"its device is {device!r}")
    except (LookupError, TypeError, ValueError, OverflowError, Refused) as wrong:
        raise _no_sense("an object", wrong) from wrong
    return info


#: WHY names of their own: inside the class, `list` is the method.
_LIST = list
_HolderList = list[Holder]
_ObjectList = list[ObjectInfo]
