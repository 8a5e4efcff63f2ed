"""One request of a client on one link: its content and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, NamedTuple

from .._data import byte_view
from ..errors import CudaIpcError
from .envelope import ABANDONED, DROPPED, FAILED, REFUSED, REPLY, Envelope
from .messages import SlotToFill
from .promise import Promise

_IS_COROUTINE = "data is a coroutine function, but the slot is sent when it returns"


class Ask(NamedTuple):
    """What is asked. `fill` writes it into a slot; None for a request with meta alone."""

    fill: Callable[[SlotToFill], object] | None
    #: Whether the CPU fills it at once, and so must not overtake a stream that uses the slot.
    is_copied: bool
    meta: Any
    shape: int | Sequence[int] | None
    byte_length: int | None


class Outcome(NamedTuple):
    #: "reply"; "failed": the handler raised; "elsewhere": the worker did not begin it; "dropped":
    #: its deadline had passed; "gone": the worker ended before it answered.
    kind: str
    #: The reply, the report of the failure, or why the worker is gone.
    value: Any = None


class Call:
    __slots__ = ("number", "outcome")

    def __init__(self) -> None:
        #: None until it is sent.
        self.number: int | None = None
        self.outcome: Promise[Outcome] = Promise()


def report_of(envelope: Envelope) -> Any:
    try:
        return envelope.json
    except CudaIpcError:
        # The request failed, even if the report cannot be read.
        return None


def outcome_of(name: str, kind: int, report: Any) -> Outcome:
    """Raises CHANNEL_CORRUPT."""
    if kind == FAILED:
        return Outcome("failed", report)
    if kind == REFUSED:
        return Outcome("elsewhere")
    if kind in (DROPPED, REPLY):
        return Outcome("dropped")
    if kind == ABANDONED:
        return Outcome(
            "gone",
            CudaIpcError(
                "PEER_GONE",
                f'Cannot wait for worker "{name}": it was closed before it finished',
            ),
        )
    raise CudaIpcError(
        "CHANNEL_CORRUPT", f'Cannot accept a reply of worker "{name}": its kind is {kind}'
    )


def ask_of(data: Any, meta: Any, shape: int | Sequence[int] | None, byte_length: int | None) -> Ask:
    if data is None:
        if shape is not None or byte_length is not None:
            raise TypeError("a request without data has no shape and no byte_length")
        return Ask(None, False, meta, None, None)
    if iscoroutinefunction(data):
        raise TypeError(_IS_COROUTINE)
    if callable(data):
        return Ask(data, False, meta, shape, byte_length)
    length = len(byte_view(data))
    if byte_length is not None and byte_length != length:
        raise ValueError(f"{length} bytes for a request of byte_length {byte_length}")
    size = length if shape is None else None
    return Ask(lambda slot: slot._write_message(data, shape), True, meta, shape, size)


def refuse_coroutine(result: object) -> None:
    """Raises TypeError for what a coroutine function returns: nobody would await it."""
    if iscoroutine(result):
        result.close()
        raise TypeError(_IS_COROUTINE)
