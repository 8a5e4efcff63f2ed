"""A client of a service: sends each request to the least loaded worker.

A request goes to another worker if the first one dies or leaves. Without room it waits in order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._closing import ClosingAsync, OfProcess
from .._deadline import Deadline
from .._keywords import class_explains_keywords
from .._protocol import DEFAULT_MS_REQUEST, LIMIT_SERVICE_WAITING
from .._waiting import async_close
from ..errors import CudaIpcError
from .claim import ClientChannels
from .client_call import Ask, Call, Outcome, ask_of
from .client_errors import check_may_retry, closed, failed, no_room, too_many_wait, why_unanswered
from .client_link import ClientLink
from .closings import Closings
from .link_choice import far_workers, least_loaded
from .messages import ServiceMessage
from .names import check_service_name, names_service
from .plan import ClientPlan
from .promise import Late, Promise, Steps, Wait, run, run_async
from .receiver import Receiver
from .search import WorkerSearch
from .worker_link import new_lock

if TYPE_CHECKING:
    from ..hub import Hub

REQUEST_S = DEFAULT_MS_REQUEST / 1000
_LOOK_AGAIN_S = 1e-3


@class_explains_keywords
class ServiceClient(ClosingAsync, OfProcess):
    """`hub.connect_service` makes it. Any number of threads may use it."""

    def __init__(self, hub: Hub, name: str, plan: ClientPlan, machine: str = "here") -> None:
        self.name = check_service_name(name)
        self._hub = hub
        self._plan = plan
        self._lock = new_lock()
        #: With the name of the worker's machine, None for this one.
        self._links: dict[ClientLink, str | None] = {}
        #: Links that have ended, with replies that are still held.
        self._lingering: dict[ClientLink, None] = {}
        #: Requests that wait for a worker, in their order.
        self._waiting: dict[Promise[ClientLink], None] = {}
        self._retried = 0
        self._is_closed = False
        self._receiver: Receiver | None = None
        self._closings = Closings(self._lock)
        far = self._far_workers if machine == "any" else None
        self._search = WorkerSearch(
            hub,
            name,
            plan,
            self._is_needed,
            self._uses,
            self._room,
            self._on_link,
            self._on_no_hub,
            far,
        )

    @property
    def workers(self) -> int:
        """The number of connected workers."""
        return len(self._links)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a worker."""
        return len(self._waiting)

    @property
    def retried(self) -> int:
        """The number of requests that were sent to another worker because the first was gone."""
        return self._retried

    @property
    def closed(self) -> bool:
        return self._is_closed

    def request(
        self,
        data: Any = None,
        *,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        byte_length: int | None = None,
        timeout: float | None = REQUEST_S,
    ) -> ServiceMessage:
        """Sends a request to a worker, and returns the reply. Release each reply.

        `data` is what `ChannelWriter.send` takes, which is copied; or a function that fills the
        slot it is given; or None for a request with meta alone. A function runs again if the
        request goes to another worker. `meta` is bytes, or a value that travels as JSON.
        `shape`, in elements, or `byte_length` is for a request that does not fill its slot.
        `timeout` is in seconds; None waits without a limit.

        With the client's `stream`, a function fills the slot by that stream, and the request is
        sent in its order. The reply comes before its data: `ready` says whether they are there.

        Raises REQUEST_FAILED if the handler raised; PEER_GONE if the worker died and no retry is
        left; TIMEOUT, which says why no worker was usable; CLOSED, LIMIT_EXCEEDED,
        MESSAGE_TOO_LARGE, and what a function raises.
        """
        return run(self._request(ask_of(data, meta, shape, byte_length), timeout))

    async def request_async(
        self,
        data: Any = None,
        *,
        meta: Any = None,
        shape: int | Sequence[int] | None = None,
        byte_length: int | None = None,
        timeout: float | None = REQUEST_S,
    ) -> ServiceMessage:
        """As `request`, for asyncio. If the task is cancelled, so is the request."""
        return await run_async(self._request(ask_of(data, meta, shape, byte_length), timeout))

    def close(self, timeout: float | None = None) -> None:
        """Ends all links. Open requests fail with CLOSED, and replies that are held end.

        It waits for the streams that were given, because they may still use requests and replies;
        on a GPU for all work of this process's context. `timeout` is in seconds; None waits without
        a limit. Raises TIMEOUT; what they use is then closed later. The second time it waits for
        them alone.
        """
        deadline = Deadline(f'close the client of service "{self.name}"', timeout)
        if self._hub._link.forked:  # the threads are the parent's
            self._is_closed = True
            return
        if not self._is_closed:
            self._close()
        self._closings.wait(deadline)

    close_async = async_close(close)

    def _close(self) -> None:
        self._is_closed = True
        with self._lock:
            waiting, self._waiting = list(self._waiting), {}
        for promise in waiting:
            promise.reject(closed(f'request from service "{self.name}"'))
        self._search.close()
        for link in [*self._links, *self._lingering]:
            link.close()
        if self._receiver is not None:
            self._receiver.close()
        self._hub._services.discard(self)

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ServiceClient {self.name!r}{' closed' if self.closed else ''}>"

    # ------------------------------------------------ one request

    @names_service
    def _request(self, ask: Ask, timeout: float | None) -> Steps[ServiceMessage]:
        attempt = f'request from service "{self.name}"'
        deadline = Deadline(attempt, timeout)
        lost = 0
        while True:
            link = yield from self._link_for(deadline)
            outcome = yield from self._outcome_of(link, ask, deadline)
            if outcome.kind == "reply":
                return outcome.value  # type: ignore[no-any-return]
            if outcome.kind == "failed":
                raise failed(attempt, outcome.value)
            if outcome.kind == "dropped":
                raise deadline.timed_out((yield from why_unanswered(self._hub, link)))
            if outcome.kind == "gone":
                lost += 1
                check_may_retry(self._plan, attempt, lost, outcome.value)
                self._retried += 1

    def _outcome_of(self, link: ClientLink, ask: Ask, deadline: Deadline) -> Steps[Outcome]:
        """Sends a request, for which room was reserved, and waits."""
        # WHY before it is sent: a signal may end this between the sending and the wait.
        call = Call()
        try:
            if not (yield from link.send(call, ask, deadline)):
                return Outcome("elsewhere")
            return (yield Wait(call.outcome, deadline))  # type: ignore[no-any-return]
        except Late:
            link.give_up(call)
            why = yield from why_unanswered(self._hub, link)
            raise deadline.timed_out(why) from None
        except BaseException:
            link.give_up(call)
            raise

    def _link_for(self, deadline: Deadline) -> Steps[ClientLink]:
        """A link with room reserved on it."""
        deadline.check(lambda: "no time was left")
        self._hub._link.check(deadline.attempt)
        promise: Promise[ClientLink] | None = None
        # WHY around all of it: a signal may come as soon as the request waits.
        try:
            with self._lock:
                if self._is_closed:
                    raise closed(deadline.attempt)
                link = least_loaded(self._links) if not self._waiting else None
                if link is not None:
                    link.reserve()
                elif len(self._waiting) >= LIMIT_SERVICE_WAITING:
                    raise too_many_wait(deadline.attempt)
                else:
                    promise = Promise()
                    self._waiting[promise] = None
            if promise is not None:
                self._begin_search()
                return (yield Wait(promise, deadline))  # type: ignore[no-any-return]
        except BaseException as reason:
            if promise is None:
                raise
            with self._lock:
                self._waiting.pop(promise, None)
            promise.reject(RuntimeError("nobody waits for this worker"))
            if promise.value is not None:
                promise.value.give_back()
            if not isinstance(reason, Late):
                raise
        if promise is None and link is not None:
            # A request would wait behind another here, or travel. A new worker may be idle.
            is_far = self._links.get(link) is not None
            if (link.load > 1 or is_far) and self.workers < self._plan.workers_max:
                self._search.look_again()
            return link
        if not self.workers:
            raise self._search.timed_out(deadline)
        raise deadline.timed_out(no_room(sum(link.held for link in list(self._links))))

    # ------------------------------------------------ links

    def _on_room(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                link = least_loaded(self._links)
                if link is None:
                    return
                promise = next(iter(self._waiting))
                del self._waiting[promise]
                link.reserve()
            if not promise.resolve(link):
                link.give_back()

    def _on_link(self, channels: ClientChannels, machine: str | None) -> None:
        with self._lock:
            if self._receiver is None:
                self._receiver = Receiver(self._hub._link, f"cuda-ipc client {self.name}")
                self._receiver.on_alarm = self._on_alarm
            link = ClientLink(self, channels, self._receiver)
            self._links[link] = machine
        link.start()
        self._on_room()

    def _on_link_end(self, link: ClientLink) -> None:
        with self._lock:
            self._links.pop(link, None)
            # Another thread may have released its last reply meanwhile.
            if not link.is_settled:
                self._lingering[link] = None
        if self._waiting:
            self._begin_search()

    def _on_link_settled(self, link: ClientLink) -> None:
        with self._lock:
            self._lingering.pop(link, None)

    def _look_again(self) -> None:
        if self._receiver is not None:
            self._receiver.alarm(time.monotonic() + _LOOK_AGAIN_S)

    def _on_alarm(self) -> None:
        for link in list(self._links):
            link.send_cancellations()

    # ------------------------------------------------ the search for workers

    def _begin_search(self) -> None:
        if self._is_needed():
            self._search.begin()

    def _is_needed(self) -> bool:
        return len(self._waiting) > 0 and self.workers < self._plan.workers_max

    def _uses(self, worker: str) -> bool:
        with self._lock:
            return any(link.worker == worker for link in self._links)

    def _room(self) -> int:
        return self._plan.workers_max - self.workers

    def _far_workers(self) -> list[str]:
        with self._lock:
            return far_workers(self._links)

    def _on_no_hub(self, error: CudaIpcError) -> None:
        """Requests that have a worker go on without a hub."""
        with self._lock:
            if self._links:
                return
            waiting, self._waiting = list(self._waiting), {}
        for promise in waiting:
            promise.reject(error)
