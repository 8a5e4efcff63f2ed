"""Services of a hub: workers, and clients of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._choices import DTypeLike, Machine, Policy, Sharing
from .._device_names import Device, device_name
from .._protocol import DEFAULT_MS_SERVICE_CLAIM
from ..errors import coded
from ..shared import REQUEST_S
from .channels import HubChannels
from .sharing import checked_sharing

if TYPE_CHECKING:
    from .._service.client import ServiceClient
    from .._service.handlers import AsyncHandler, Finish, Handler, Runner
    from .._service.plan import ServicePlan
    from .._service.worker import Service

Shape = int | Sequence[int]
_CLAIM_S = DEFAULT_MS_SERVICE_CLAIM / 1000


class HubServices(HubChannels):
    @coded("serve")  # its imports, too, open files
    def serve(
        self,
        name: str,
        handler: Handler,
        *,
        request: tuple[DTypeLike, Shape],
        reply: tuple[DTypeLike, Shape] | None = None,
        depth: int | None = None,
        clients_max: int = 16,
        concurrency: int = 1,
        meta_bytes_max: int = 256,
        device: Device | None = None,
        stream: Any = None,
        sharing: Sharing | None = None,
        workers: Mapping[str, Any] | None = None,
        claim_timeout: float = _CLAIM_S,
        timeout: float | None = REQUEST_S,
    ) -> Service:
        """Serves requests under this name, as one of its workers, on threads of this package.

        `handler(request, reply)` returns None or a dict with `meta`, `shape` and `byte_length` of
        the reply. If it raises, the client gets REQUEST_FAILED. `request` and `reply` are the dtype
        and the shape, in elements, of the largest message; without `reply` the replies have meta
        alone. `concurrency` requests are handled at a time. `depth` is how many open requests one
        client may have here, by default `concurrency` + 1; `clients_max` is how many clients.
        A client that claims this worker and stays silent loses it after `claim_timeout` seconds.
        `workers` names users whose processes may also be workers of this service: `{"uid": 1001}`,
        or several in a list. The first worker of a service decides.

        `stream` is the stream of a GPU on which the handler works: of PyTorch, CuPy or cuda.core,
        or a handle as an integer. It waits for the data of requests, gives their slots back and
        sends the replies in its order, so the handler enqueues its work and returns. Without a
        stream, the CPU waits for all work of this process's context.

        Returns once clients can connect. The worker runs until it is closed. Raises INVALID_NAME,
        OUT_OF_MEMORY, LIMIT_EXCEEDED, TIMEOUT; TypeError, ValueError, also for a wrong stream.
        """
        from .._service.handlers import ThreadRunner

        def threads(finish: Finish) -> Runner:
            return ThreadRunner(f"cuda-ipc handler {name}", handler, finish)

        where = self._device(device)
        plan = _plan(
            request,
            reply,
            depth,
            clients_max,
            concurrency,
            meta_bytes_max,
            claim_timeout,
            where,
            stream,
            workers,
        )
        return self._serve(name, handler, False, plan, threads, where, sharing, timeout)

    async def serve_async(
        self,
        name: str,
        handler: AsyncHandler,
        *,
        request: tuple[DTypeLike, Shape],
        reply: tuple[DTypeLike, Shape] | None = None,
        depth: int | None = None,
        clients_max: int = 16,
        concurrency: int = 1,
        meta_bytes_max: int = 256,
        device: Device | None = None,
        stream: Any = None,
        sharing: Sharing | None = None,
        workers: Mapping[str, Any] | None = None,
        claim_timeout: float = _CLAIM_S,
        timeout: float | None = REQUEST_S,
    ) -> Service:
        """As `serve`, for asyncio: `handler` is a coroutine function, and runs on this event loop.

        Use `await reply.loan_async()` in it. If nobody waits for a reply any more, the task of its
        handler is cancelled. Close the service with `await service.close_async()` or `async with`.
        """
        import asyncio

        from .._service.handlers import TaskRunner
        from .._waiting import in_thread

        loop = asyncio.get_running_loop()

        def tasks(finish: Finish) -> Runner:
            return TaskRunner(loop, handler, finish)

        where = self._device(device)
        plan = _plan(
            request,
            reply,
            depth,
            clients_max,
            concurrency,
            meta_bytes_max,
            claim_timeout,
            where,
            stream,
            workers,
        )
        return await in_thread(
            lambda: self._serve(name, handler, True, plan, tasks, where, sharing, timeout),
            lambda service: service.close(),
        )

    @coded("connect to a service")
    def connect_service(
        self,
        name: str,
        *,
        policy: Policy = "retry",
        retries_max: int = 3,
        workers_max: int = 64,
        machine: Machine = "here",
        device: Device | None = None,
        stream: Any = None,
        sharing: Sharing | None = None,
        workers: Mapping[str, Any] | None = None,
    ) -> ServiceClient:
        """A client of the service with this name. It looks for workers when it has requests.

        If a worker dies before it answers, `policy` "retry" sends the request to another one, at
        most `retries_max` times, so it may be handled twice; "fail" raises PEER_GONE. The client
        uses at most `workers_max` workers at a time. `device` is that of the requests, by default
        that of the replies. `stream` is the stream of a GPU that fills requests and reads replies,
        as for `open_channel`: a reply comes before its data, and the stream waits for them. With
        `machine` "any", requests for which no worker of this machine has room go to workers of
        other machines, through its bridge. It takes workers of this process's user, of root and of
        the hub's user, and of the users that `workers` names: `{"uid": 1001}`, or several in a
        list. `sharing` lets their workers read the requests. Raises INVALID_NAME; TypeError,
        ValueError, also for a wrong stream.
        """
        from .._service.client import ServiceClient
        from .._service.plan import client_plan

        self._link.check(f'connect to service "{name}"')
        if machine not in ("here", "any"):
            raise ValueError(f'machine must be "here" or "any", not {machine!r}')
        where = None if device is None else device_name(device)
        checked_sharing(sharing)  # its first use comes with the first worker
        plan = client_plan(policy, retries_max, workers_max, where, sharing, stream, workers)
        client = ServiceClient(self, name, plan, machine)  # type: ignore[arg-type]
        self._services.add(client)
        return client

    @coded("serve")
    def _serve(
        self,
        name: str,
        handler: Any,
        is_async: bool,
        plan: ServicePlan,
        make_runner: Callable[[Finish], Runner],
        device: str,
        sharing: Sharing | None,
        timeout: float | None,
    ) -> Service:
        from .._service.names import check_service_name, of_service
        from .._service.worker import Service
        from .._service.worker_offers import WorkerOffers

        check_service_name(name)
        if not callable(handler):
            raise TypeError(f"handler must be a function, not {handler!r}")
        from inspect import iscoroutinefunction

        if iscoroutinefunction(handler) != is_async:
            kind, call = ("an ordinary", "serve") if is_async else ("a coroutine", "serve_async")
            raise TypeError(f"handler is {kind} function: use {call}()")
        service = Service(self, name, plan, make_runner)  # type: ignore[arg-type]
        try:
            offers = WorkerOffers(service, self, device, sharing, timeout)  # type: ignore[arg-type]
            self._services.add(service)
            service._serve(offers)
        except BaseException as wrong:
            of_service(wrong, name)
            service.close(0)
            raise
        return service


def _plan(*options: Any) -> ServicePlan:
    from .._service.plan import service_plan

    return service_plan(*options)
