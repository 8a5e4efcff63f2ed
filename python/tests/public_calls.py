"""The public calls of the doors of `cuda-ipc`, as the API reports in `api/` list them."""

from __future__ import annotations

import pathlib
import re

_CLASS = re.compile(r"(?:export|declare) (?:abstract )?class (\w+)")
_OPTIONS = re.compile(r"(?:export|declare) interface (\w+Options)\b")
_FUNCTION = re.compile(r"export function (\w+)")
#: A member of a class or of options. Types of options may go on in further lines, indented deeper.
_MEMBER = re.compile(r"    (?:(?:static|readonly|get|set|abstract) )*(\w+)\??(?:<|\(|:)")


def public_calls(reports: pathlib.Path, doors: tuple[str, ...]) -> list[str]:
    """Functions such as `connect`, and members of classes and options such as `Hub.create`."""
    found: dict[str, None] = {}
    for door in doors:
        owner = None
        for line in (reports / f"{door}.api.md").read_text().splitlines():
            if opened := _CLASS.match(line) or _OPTIONS.match(line):
                owner = opened[1]
            elif line.startswith("}"):
                owner = None
            elif function := _FUNCTION.match(line):
                found[function[1]] = None
            elif owner and (member := _MEMBER.match(line)) and member[1] != "constructor":
                found[f"{owner}.{member[1]}"] = None
    return list(found)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
