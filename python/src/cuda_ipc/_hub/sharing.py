"""Who may open an object beside the user of its creator."""

from __future__ import annotations

from collections.abc import Mapping

_WITH = ("private", "group", "all")
_ACCESS = ("read", "read-write")


def checked_sharing(
    sharing: Mapping[str, str] | None, only_read: bool = False
) -> dict[str, str] | None:
    """As the hub takes it. Raises TypeError, ValueError."""
    if sharing is None:
        return None
    if not isinstance(sharing, Mapping) or "with" not in sharing:
        raise TypeError(f'sharing must be such as {{"with": "group"}}, not {sharing!r}')
    for key in sharing:
        if key not in ("with", "access"):
            raise TypeError(f"sharing has no option {key!r}; it has with and access")
    whom, access = sharing["with"], sharing.get("access", "read")
    if whom not in _WITH:
        raise ValueError(f"sharing with must be one of {', '.join(_WITH)}, not {whom!r}")
    if access not in _ACCESS:
        raise ValueError(f"sharing access must be one of {', '.join(_ACCESS)}, not {access!r}")
    if only_read and access != "read":
        raise ValueError('sharing access of a timeline must be "read": its owner alone signals it')
    return {"with": whom, "access": access}
