"""Who may open an object beside the user of its creator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._choices import Sharing, TimelineSharing

_WITH = ("private", "group", "all")
_ACCESS = ("read", "read-write")
_KEYS = ("with", "access", "machines")


def checked_sharing(
    sharing: Sharing | TimelineSharing | None, of_timeline: bool = False
) -> dict[str, Any] | None:
    """As the hub takes it. Raises TypeError, ValueError."""
    if sharing is None:
        return None
    if not isinstance(sharing, Mapping):
        raise TypeError(f'sharing must be such as {{"with": "group"}}, not {sharing!r}')
    for key in sharing:
        if key not in _KEYS:
            raise TypeError(f"sharing has no option {key!r}; it has with, access and machines")
    if "with" not in sharing and ("machines" not in sharing or "access" in sharing):
        raise TypeError(f'sharing must be such as {{"with": "group"}}, not {sharing!r}')
    whom, access = sharing.get("with", "private"), sharing.get("access", "read")
    machines = sharing.get("machines", False)
    if whom not in _WITH:
        raise ValueError(f"sharing with must be one of {', '.join(_WITH)}, not {whom!r}")
    if access not in _ACCESS:
        raise ValueError(f"sharing access must be one of {', '.join(_ACCESS)}, not {access!r}")
    if not isinstance(machines, bool):
        raise TypeError(f"sharing machines must be True or False, not {machines!r}")
    if of_timeline and access != "read":
        raise ValueError('sharing access of a timeline must be "read": its owner alone signals it')
    if of_timeline and machines:
        raise ValueError("sharing machines is not for timelines: they do not cross machines")
    checked = {"with": whom, "access": access}
    return {**checked, "machines": True} if machines else checked
