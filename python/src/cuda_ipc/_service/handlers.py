"""Runs handlers: each on a thread, or each as a task of asyncio."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from .._waiting import to_its_end
from ..errors import CudaIpcError
from .messages import ServiceRequest
from .promise import call_soon, in_background
from .reply import Reply, ReplyOptions

if TYPE_CHECKING:
    from .worker_link import WorkerLink

Handler = Callable[[ServiceRequest, Reply], "ReplyOptions | None"]
AsyncHandler = Callable[[ServiceRequest, Reply], Awaitable["ReplyOptions | None"]]


class Work:
    """A request that waits for the handler, or that the handler works on."""

    __slots__ = ("link", "reply", "request")

    def __init__(self, link: WorkerLink, request: ServiceRequest) -> None:
        self.link = link
        self.request = request
        self.reply = Reply(link)


#: Takes what the handler returned, or what it raised.
Finish = Callable[[Work, Any, "BaseException | None"], object]


class Runner(Protocol):
    def start(self, work: Work) -> None: ...

    def close(self) -> None:
        """Takes no more work. What runs goes on."""


class ThreadRunner:
    """Has as many threads as handlers have run at a time."""

    def __init__(self, name: str, handler: Handler, finish: Finish) -> None:
        self._name = name
        self._handler = handler
        self._finish = finish
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._is_closed = False

    def start(self, work: Work) -> None:
        with self._changed:
            self._waiting.append(work)
            if len(self._waiting) <= self._idle:
                self._changed.notify()
                return
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                self._idle -= 1
                if not self._waiting:
                    return
                work = self._waiting.popleft()
            try:
                result = self._handler(work.request, work.reply)
            except BaseException as failure:
                # WHY all: whatever it is, the client must be told.
                self._finish(work, None, failure)
            else:
                self._finish(work, result, None)
            del work


class TaskRunner:
    """Runs handlers on the event loop. If nobody waits for a reply, its task is cancelled."""

    def __init__(self, loop: Any, handler: AsyncHandler, finish: Finish) -> None:
        self._loop = loop
        self._handler = handler
        self._finish = finish
        self._tasks: set[Any] = set()
        self._unbegun: set[Work] = set()

    def start(self, work: Work) -> None:
        if not call_soon(self._loop, lambda: self._begin(work)):
            closed = CudaIpcError("CLOSED", "Cannot run the handler: its event loop was closed")
            self._finish(work, None, closed)

    def close(self) -> None:
        pass

    def _begin(self, work: Work) -> None:
        # WHY a task: it is what the handler can be cancelled by.
        task = self._loop.create_task(self._run(work))
        self._unbegun.add(work)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._end(work, task))
        work.request._on_given_up = lambda: call_soon(self._loop, task.cancel)
        if work.request.given_up is not None:
            task.cancel()

    def _end(self, work: Work, task: Any) -> None:
        self._tasks.discard(task)
        # A task that is cancelled before its first step never runs.
        if work in self._unbegun:
            self._unbegun.discard(work)
            if work.link.waits_for_gpu:
                in_background(lambda: self._finish(work, None, _cancelled(work)))
            else:
                self._finish(work, None, _cancelled(work))

    async def _run(self, work: Work) -> None:
        self._unbegun.discard(work)
        try:
            result = await self._handler(work.request, work.reply)
        except BaseException as failure:
            # WHY not awaited: nothing may be awaited any more.
            if isinstance(failure, GeneratorExit):
                self._finish(work, None, failure)
            else:
                await self._end_of(work, None, failure)
            if work.request.given_up is None and not isinstance(failure, Exception):
                raise
        else:
            await self._end_of(work, result, None)

    async def _end_of(self, work: Work, result: Any, failure: BaseException | None) -> None:
        if work.link.waits_for_gpu:
            await to_its_end(lambda: self._finish(work, result, failure))
        else:
            self._finish(work, result, failure)


def _cancelled(work: Work) -> CudaIpcError:
    return CudaIpcError(
        "ABORTED", f"Cannot answer request {work.request.number}: its task was cancelled"
    )
