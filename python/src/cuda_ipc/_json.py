"""JSON between processes: without spaces, in UTF-8."""

from __future__ import annotations

import json
import re
from typing import Any

from ._protocol import LIMIT_JSON_LEVELS


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
_long_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_by_value, parse_int=_by_value)


def parse_json(text: bytes, whole: bool = False) -> Any:
    """Raises ValueError if it is not JSON in UTF-8, or nested more deeply than Python can parse.

    With `whole`, a number that is an integer is one however it is written: 2.0 and 2e0 are 2.
    """
    # WHY decoded here: `json.loads` takes UTF-16, halves of surrogate pairs, and NaN.
    decoded = text.decode("utf-8")
    try:
        return (_whole_decoder if whole else _decoder).decode(decoded)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # WHY: Python makes no integer of a number of more than 4300 digits.
        if not whole:
            raise
        return _long_decoder.decode(decoded)
    except RecursionError:
        # WHY: it is no ValueError. It would end the thread that receives, with all its objects.
        raise ValueError("it is nested too deeply") from None


#: Texts, and all else that is no bracket.
_BETWEEN_BRACKETS = re.compile(rb'(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^][{}"]+)+')


def check_levels(text: bytes) -> None:
    """Raises ValueError if more lists and objects lie in each other than a reply may have.

    text: JSON that was parsed
    """
    if text.count(b"[") + text.count(b"{") <= LIMIT_JSON_LEVELS:
        return
    levels = 0
    for bracket in _BETWEEN_BRACKETS.sub(b"", text):
        levels += 1 if bracket in b"[{" else -1
        if levels > LIMIT_JSON_LEVELS:
            raise ValueError(f"more than {LIMIT_JSON_LEVELS} lists and objects lie in each other")
