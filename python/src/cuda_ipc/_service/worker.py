"""A worker of a service: takes requests of its clients in turn, and runs the handler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._closing import ClosingAsync, OfProcess
from .._deadline import Deadline
from .._keywords import class_explains_keywords
from .._protocol import DEFAULT_MS_REQUEST
from .._waiting import async_close
from ..errors import CudaIpcError
from .closings import Closings
from .envelope import ABANDONED, DROPPED, FAILED, REFUSED
from .fair_queue import FairQueue
from .handlers import Finish, Runner, Work
from .messages import ServiceRequest
from .plan import ServicePlan
from .promise import Late, Promise, Steps, Wait, run, run_async
from .receiver import Receiver
from .worker_link import WorkerLink, new_lock
from .worker_offers import WorkerOffers

if TYPE_CHECKING:
    from ..channel_reader import ChannelReader
    from ..channel_writer import ChannelWriter
    from ..hub import Hub

CLOSE_S = DEFAULT_MS_REQUEST / 1000
#: Between looks at what nobody rings for.
_LOOK_AGAIN_S = 1e-3


@class_explains_keywords
class Service(ClosingAsync, OfProcess):
    """One worker of a service. `hub.serve` makes it. Leaving `with` closes it."""

    def __init__(
        self, hub: Hub, name: str, plan: ServicePlan, make_runner: Callable[[Finish], Runner]
    ) -> None:
        import threading

        self.name = name
        self._hub = hub
        self._plan = plan
        self._lock = new_lock()
        self._links: dict[WorkerLink, None] = {}
        self._queue: FairQueue[WorkerLink, Work] = FairQueue()
        self._running: set[Work] = set()
        self._answered = 0
        self._is_closing = False
        # The device is lost, so every further request would fail.
        self._is_lost = False
        self._idle = threading.Condition(self._lock)
        self._ended: Promise[None] = Promise()
        self._end: CudaIpcError | None = None
        self._closings = Closings(self._lock)
        self._runner = make_runner(self._finish)
        self._receiver = Receiver(hub._link, f"cuda-ipc service {name}")
        self._receiver.on_alarm = self._on_alarm
        self._receiver.on_hub_end = self._on_hub_end
        self._offers: WorkerOffers | None = None

    @property
    def clients(self) -> int:
        """The number of connected clients."""
        return len(self._links)

    @property
    def running(self) -> int:
        """The number of requests that the handler works on."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for the handler."""
        with self._lock:
            return len(self._queue)

    @property
    def answered(self) -> int:
        """The number of requests that the handler has finished."""
        return self._answered

    @property
    def closed(self) -> bool:
        return self._is_closing

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the service is closed, for programs that do nothing else.

        `timeout` is in seconds; None waits without a limit. Raises TIMEOUT; HUB_GONE if the hub
        has ended for good.
        """
        run(self._wait(timeout))

    async def wait_async(self, timeout: float | None = None) -> None:
        """As `wait`, for asyncio."""
        await run_async(self._wait(timeout))

    def _wait(self, timeout: float | None) -> Steps[None]:
        yield from self._until_ended(
            Deadline(f'wait for the end of service "{self.name}"', timeout)
        )
        if self._end is not None:
            raise self._end

    def _until_ended(self, deadline: Deadline, found: str | None = None) -> Steps[None]:
        try:
            yield Wait(self._ended, deadline)
        except Late:
            raise deadline.timed_out(found) from None

    def close(self, timeout: float | None = CLOSE_S) -> None:
        """Finishes running requests, and refuses waiting ones, which go to other workers.

        A request that is not finished in time, in seconds, is abandoned: its client sees a dead
        worker. Then it waits for the streams that were given, because replies are ready only after
        them; on a GPU for all work of this process's context. Raises TIMEOUT if they are not done
        in time; what they use is closed later. The second time it waits for them alone.
        """
        deadline = Deadline(f'close service "{self.name}"', timeout)
        if self._hub._link.forked:  # the threads are the parent's
            self._is_closing = True
            return
        with self._lock:
            is_first = not self._is_closing
            self._is_closing = True
        if not is_first:
            found = "another call closes it, and waits for its requests"
            run(self._until_ended(deadline, found))
            self._settle(deadline)
            return
        try:
            self._stop(deadline)
        finally:
            for link in list(self._links):
                link.close("its worker was closed")
            self._receiver.close()
            self._runner.close()
            self._hub._services.discard(self)
            self._ended.resolve(None)
        self._settle(deadline)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    close_async = async_close(close)

    def __repr__(self) -> str:
        return f"<Service {self.name!r}{' closed' if self.closed else ''}>"

    def _stop(self, deadline: Deadline) -> None:
        if self._offers is not None:
            self._offers.close(deadline)
        self._refuse_waiting()
        try:
            with self._idle:
                while self._running or any(link._outbox for link in self._links):
                    remaining = deadline.remaining
                    if remaining == 0:
                        break
                    self._idle.wait(remaining)
        finally:
            self._abandon()

    def _settle(self, deadline: Deadline) -> None:
        """Waits for what streams hold up. Raises TIMEOUT."""
        self._closings.wait(deadline)
        if self._offers is not None and not self._offers.close(deadline):
            raise deadline.timed_out("its next offer is still being made")

    def _abandon(self) -> None:
        """Each client must be told. One that hears nothing assumes that nothing was begun."""
        with self._lock:
            running = list(self._running)
        for work in running:
            # WHY first: a handler that hears of its end would answer that the client gave up.
            work.link.answer(work.request, ABANDONED, reply=work.reply)
            self._give_up(work.link, work.request, "CLOSED", "its worker was closed")

    # ------------------------------------------------ for offers and links

    def _serve(self, offers: WorkerOffers) -> None:
        self._offers = offers
        offers.start()

    def _on_taken(self, requests: ChannelReader, replies: ChannelWriter) -> None:
        link = WorkerLink(self, requests, replies)
        with self._lock:
            self._links[link] = None
            is_closing = self._is_closing
        if is_closing:
            link.close("its worker was closed")
        else:
            link.start()

    @property
    def _has_room(self) -> bool:
        return len(self._links) < self._plan.clients_max

    def _leave(self, replies: ChannelWriter) -> None:
        if self._offers is None:
            self._closings.close(replies)
        else:
            self._offers.leave(replies)

    def _on_link_end(self, link: WorkerLink) -> None:
        with self._lock:
            self._links.pop(link, None)
            self._idle.notify_all()
        if self._offers is not None:
            self._offers.room_came()

    def _on_request(self, link: WorkerLink, request: ServiceRequest) -> None:
        if self._is_closing or self._is_lost:
            link.answer(request, REFUSED)
            return
        with self._lock:
            self._queue.push(link, Work(link, request))
        self._receiver.alarm(request.deadline)
        self._pump()

    def _give_up(self, link: WorkerLink, request: ServiceRequest, code: str, found: str) -> None:
        """Nobody waits for the reply. A request that was not begun is dropped."""
        request._give_up(code, found)
        with self._lock:
            waiting = [work for work in self._queue.items(link) if work.request is request]
            was_waiting = waiting != [] and self._queue.delete(link, waiting[0])
        if was_waiting:
            link.answer(request, DROPPED)

    def _on_lost(self) -> None:
        """Takes no more requests, and refuses those that wait. The links stay open."""
        if not self._is_lost:
            self._is_lost = True
            if self._offers is not None:
                self._offers.stop()
            self._refuse_waiting()

    def _look_again(self) -> None:
        self._receiver.alarm(time.monotonic() + _LOOK_AGAIN_S)

    def _on_alarm(self) -> None:
        for link in list(self._links):
            link.flush()
            self._receiver.alarm(link.expire(time.monotonic()))
        with self._lock:
            self._idle.notify_all()

    def _on_hub_end(self) -> None:
        self._end = self._hub._link.ended
        self._ended.resolve(None)

    # ------------------------------------------------ work

    def _pump(self) -> None:
        while True:
            with self._lock:
                if len(self._running) >= self._plan.concurrency:
                    return
                work = self._queue.shift()
                if work is None:
                    return
                # The alarm may be late if the interpreter is busy.
                deadline = work.request.deadline
                is_late = deadline is not None and time.monotonic() >= deadline
                if not is_late:
                    self._running.add(work)
            if is_late:
                work.request._give_up("TIMEOUT", "its deadline has passed")
                work.link.answer(work.request, DROPPED)
            else:
                self._runner.start(work)

    def _finish(self, work: Work, result: Any, failure: BaseException | None) -> None:
        link, request = work.link, work.request
        try:
            if failure is None:
                self._answered += 1
                request.release()
                if request.given_up is None:
                    link.send(request, work.reply, {} if result is None else result)
                    return
            self._tell(work, failure)
        except Exception as unsendable:
            self._tell(work, unsendable)
        finally:
            work.reply._close()
            with self._lock:
                self._running.discard(work)
                self._idle.notify_all()
            self._pump()

    def _tell(self, work: Work, failure: BaseException | None) -> None:
        link, request, reply = work.link, work.request, work.reply
        if request.given_up is not None or failure is None:
            link.answer(request, DROPPED, reply=reply)
        elif getattr(failure, "code", None) == "DEVICE_LOST":
            # FAILED would blame the request. Another worker may well answer it.
            self._on_lost()
            link.answer(request, ABANDONED, reply=reply)
        else:
            link.answer(request, FAILED, failure, reply)

    def _refuse_waiting(self) -> None:
        with self._lock:
            waiting = self._queue.clear()
        for work in waiting:
            work.link.answer(work.request, REFUSED)
