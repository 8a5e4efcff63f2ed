"""JSON that another process sent."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Raises ValueError if it is not JSON, or nested more deeply than Python can parse."""
    try:
        return json.loads(text)
    except RecursionError:
        # WHY: it is no ValueError. It would end the thread that receives, with all its objects.
        raise ValueError("it is nested too deeply") from None
