"""Why a request has no reply, as errors of a service's client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._deadline import Deadline
from .._protocol import DEFAULT_MS_EXPLANATION, LIMIT_SERVICE_WAITING
from .._ring_message import held_here
from ..errors import CudaIpcError
from .promise import Steps, Wait, in_background
from .report import failure_text

if TYPE_CHECKING:
    from ..hub import Hub
    from .client_link import ClientLink
    from .plan import ClientPlan


def no_room(held: int) -> str:
    """`held` is how many replies the program has not released."""
    if held == 0:
        return "no worker has room for another request of this client"
    return held_here(held, "reply", "replies")


def closed(attempt: str) -> CudaIpcError:
    return CudaIpcError("CLOSED", f"Cannot {attempt}: the client was closed")


def too_many_wait(attempt: str) -> CudaIpcError:
    found = f"{LIMIT_SERVICE_WAITING} requests wait (serviceWaitingMax)"
    return CudaIpcError("LIMIT_EXCEEDED", f"Cannot {attempt}: {found}")


def failed(attempt: str, report: bytes) -> CudaIpcError:
    found = f"the handler raised {failure_text(report)}"
    return CudaIpcError("REQUEST_FAILED", f"Cannot {attempt}: {found}")


def why_unanswered(hub: Hub, link: ClientLink) -> Steps[str]:
    name = yield Wait(in_background(lambda: _worker_words(hub, link)), Deadline("ask", None))
    others = link.load - 1
    behind = f"; {others} other requests of this client wait for it" if others > 0 else ""
    return f"its worker ({name}) has not answered{behind}"


def _worker_words(hub: Hub, link: ClientLink) -> str:
    """The worker for errors: its process if the hub says so, otherwise its id."""
    try:
        _, holders = hub.inspect(link.channel, DEFAULT_MS_EXPLANATION / 1000)
    except CudaIpcError:
        return link.worker
    owner = next((holder for holder in holders if holder.access == "owner"), None)
    return link.worker if owner is None else f"process {owner.pid}, {owner.program}"


def check_may_retry(plan: ClientPlan, attempt: str, lost: int, cause: BaseException) -> None:
    """Raises PEER_GONE."""
    if plan.policy == "retry" and lost <= plan.retries_max:
        return
    times = f", the last of {lost}" if lost > 1 else ""
    what = f"Cannot {attempt}: its worker ended before it answered{times}"
    raise CudaIpcError("PEER_GONE", what) from cause
