"""Which worker of a service gets a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client_link import ClientLink

#: The links of a client, each with the machine of its worker if that is another one.
Links = dict["ClientLink", "str | None"]


def least_loaded(links: Links) -> ClientLink | None:
    """With room, and of this machine if one has room here."""
    best: ClientLink | None = None
    order = (True, 0)
    for link, machine in links.items():
        if link.has_room and (best is None or (machine is not None, link.load) < order):
            best, order = link, (machine is not None, link.load)
    if best is not None:
        # Moved to the end, so that equally loaded workers take turns.
        links[best] = links.pop(best)
    return best


def far_workers(links: Links) -> list[str]:
    return [link.worker for link, machine in links.items() if machine is not None]
