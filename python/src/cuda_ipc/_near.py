"""Suggests known words for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean "slots"?` or ""."""
    from difflib import get_close_matches  # of errors alone

    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(word.lower(), by_lower, 1)
    return f' Did you mean "{by_lower[near[0]]}"?' if near else ""
