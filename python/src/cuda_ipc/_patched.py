"""Finds out whether gevent or eventlet has replaced modules that this package needs as they are."""

from __future__ import annotations

import sys

from .errors import CudaIpcError

#: Their replacements hang, or lack functions: the package waits on threads and on descriptors.
_GEVENT = ("socket", "select", "thread", "threading")
_EVENTLET = ("socket", "select", "thread")


def refuse_patched(attempt: str) -> None:
    """Raises UNSUPPORTED if such a module was replaced."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    found = None
    if gevent is not None:
        found = next((m for m in _GEVENT if gevent.is_module_patched(m)), None)
    if found is None and eventlet is not None:
        found = next((m for m in _EVENTLET if eventlet.is_monkey_patched(m)), None)
        gevent = None
    if found is not None:
        who = "gevent" if gevent is not None else "eventlet"
        raise CudaIpcError(
            "UNSUPPORTED",
            f"Cannot {attempt}: {who} has patched Python's module {found}, with which this package "
            "hangs. Use it in a process that is not patched, for example with threads or asyncio.",
        )
