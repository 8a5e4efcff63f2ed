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


def parse_json(text: str | bytes) -> Any:
    """Raises ValueError if it is not JSON, or nested more deeply than Python can parse."""
    try:
        return json.loads(text)
    except RecursionError:
        # WHY: it is no ValueError. It would end the thread that receives, with all its objects.
        raise ValueError("it is nested too deeply") from None
