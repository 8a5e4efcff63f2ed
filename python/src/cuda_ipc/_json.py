"""JSON between processes: without spaces, in UTF-8."""

from __future__ import annotations

import json
from typing import Any


def encode_json(value: Any, errors: str = "strict", what: str = "value") -> bytes:
    """Raises TypeError, ValueError if it is not JSON. `errors` is for half a surrogate pair."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", errors)
    except (TypeError, ValueError, RecursionError) as wrong:
        kind = ValueError if isinstance(wrong, RecursionError) else type(wrong)
        if isinstance(wrong, UnicodeEncodeError):
            kind = ValueError
        raise kind(f"{what} must be a value that JSON can have: {wrong}") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _by_value(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


_decoder = json.JSONDecoder(parse_constant=_refuse)
_whole_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_by_value)


def parse_json(text: bytes, whole: bool = False) -> Any:
    """Raises ValueError if it is not JSON in UTF-8, or nested more deeply than Python can parse.

    With `whole`, a number that is an integer is one however it is written: 2.0 and 2e0 are 2.
    """
    try:
        # WHY decoded here: `json.loads` takes UTF-16, halves of surrogate pairs, and NaN.
        return (_whole_decoder if whole else _decoder).decode(text.decode("utf-8"))
    except RecursionError:
        # WHY: it is no ValueError. It would end the thread that receives, with all its objects.
        raise ValueError("it is nested too deeply") from None
