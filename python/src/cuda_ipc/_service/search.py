"""Finds workers of a service while a client needs them.

It lists the names on the hub, then asks the bridge if workers of other machines are wanted, less
and less often if no new worker appears.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._deadline import Deadline, GrowingPause
from .._protocol import (
    DEFAULT_MS_REQUEST,
    DEFAULT_MS_SERVICE_HELLO,
    DEFAULT_MS_SERVICE_LOOK_AGAIN,
)
from ..errors import CudaIpcError, CudaIpcTimeout
from .claim import ClientChannels, claim_offer
from .names import FoundOffer, offer_prefix, offers_among, request_name, workers_among
from .plan import ClientPlan
from .users import trusted_users, untrusted

if TYPE_CHECKING:
    from ..hub import Hub

#: Workers whose errors the message quotes.
_TOLD_MAX = 3
#: Instead of a worker, if the bridge could offer none.
_ELSEWHERE = "other machines"
_ENDING = ("CLOSED", "HUB_GONE", "DEVICE_LOST")


class WorkerSearch:
    def __init__(
        self,
        hub: Hub,
        service: str,
        plan: ClientPlan,
        is_needed: Callable[[], bool],
        uses: Callable[[str], bool],
        room: Callable[[], int],
        on_link: Callable[[ClientChannels, str | None], object],
        on_failure: Callable[[CudaIpcError], object],
        far_workers: Callable[[], list[str]] | None,
    ) -> None:
        """`uses` says whether there is a link to a worker, and `room` how many more may be linked.

        `far_workers` gives the workers of other machines to which there are links; None if they
        are not wanted. `on_link` gets the name of a worker's machine, None for this one.
        """
        self._hub = hub
        self._service = service
        self._plan = plan
        self._is_needed = is_needed
        self._uses = uses
        self._room = room
        self._on_link = on_link
        self._on_failure = on_failure
        self._far_workers = far_workers
        self._changed = threading.Condition()
        #: The users whose workers it takes, once the hub has said who they are.
        self._trusted: frozenset[int] = frozenset()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        #: Of the calls under way.
        self._limits: set[Deadline] = set()
        #: By worker, the threads that claim offers of this machine.
        self._claims: dict[str, threading.Thread] = {}
        self._last_look = float("-inf")
        #: Why each worker that was found could not be used, for the error of a timeout.
        self._unusable: dict[str, CudaIpcError] = {}
        #: Why the hub could not be asked the last time.
        self._look_failure: CudaIpcError | None = None

    def begin(self) -> None:
        """Searches until no worker is needed. Does nothing if a search is running."""
        with self._changed:
            if self._is_closed or self._thread is not None:
                return
            thread = threading.Thread(
                target=self._run, name=f"cuda-ipc search {self._service}", daemon=True
            )
            thread.start()
            # After a signal in `start`, a thread that began all the same ends by this at once.
            self._thread = thread

    def look_again(self) -> None:
        """Looks once if the last look was long ago."""
        if time.monotonic() - self._last_look > DEFAULT_MS_SERVICE_LOOK_AGAIN / 1000:
            self.begin()

    def close(self) -> None:
        """No worker is found after this returns."""
        with self._changed:
            self._is_closed = True
            threads = [*self._claims.values(), *([self._thread] if self._thread else [])]
            limits = list(self._limits)
            self._changed.notify_all()
        for limit in limits:
            limit.cancel()
        for thread in threads:
            thread.join()

    def timed_out(self, deadline: Deadline) -> CudaIpcTimeout:
        """The error of a request that found no usable worker in time."""
        with self._changed:
            failure, unusable = self._look_failure, list(self._unusable.values())
        where = f"; the hub is at {self._hub.socket_path}"
        if failure is not None:
            return deadline.timed_out(
                "no worker was found, because the hub did not list its names: "
                f"{_words(failure)}{where}"
            )
        if not unusable:
            return deadline.timed_out(f"no worker was found{where}")
        told = [_words(one) for one in unusable[:_TOLD_MAX]]
        if len(unusable) > _TOLD_MAX:
            told.append(f"and {len(unusable) - _TOLD_MAX} more")
        return deadline.timed_out(
            f"none of {len(unusable)} workers could be used: {'; '.join(told)}{where}"
        )

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with self._changed:
            if self._thread is not threading.current_thread():
                return
        pause = GrowingPause()
        while True:
            try:
                if self._look():
                    pause = GrowingPause()
            except CudaIpcError as wrong:
                self._look_failed(wrong)
            self._last_look = time.monotonic()
            with self._changed:
                if not self._is_closed and self._is_needed():
                    self._changed.wait(pause.next())
                if self._is_closed or not self._is_needed():
                    self._thread = None
                    return

    def _look(self) -> bool:
        """Whether a new worker was found."""
        prefix = offer_prefix(self._service)
        with self._limited(f'list the workers of "{self._service}"') as limit:
            infos = self._hub.list(limit, prefix=prefix)
            if not self._trusted:
                self._trusted = trusted_users(self._hub._link, limit) | {*self._plan.workers}
        owners = {info.name: info.owner_uid for info in infos}
        # Offers that a bridge made are for the client that asked for them.
        far = {info.name for info in infos if "replicaOf" in info.descriptor}
        far |= {request_name(name) for name in far}
        names = [info.name for info in infos if info.name not in far]
        workers = workers_among(self._service, names)
        with self._changed:
            self._look_failure = None
            for gone in set(self._unusable) - workers:
                del self._unusable[gone]
            refused = set(self._unusable)
        begun: list[str] = []
        for offer in _best_first(offers_among(self._service, names), owners, refused):
            workers.discard(offer.worker)
            if owners[offer.name] not in self._trusted:
                with self._changed:
                    uid = owners[offer.name]
                    self._unusable[offer.worker] = untrusted(offer.worker, uid)
            elif self._wants(offer.worker):
                self._begin_claim(offer)
                begun.append(offer.worker)
        found = self._any_of(begun)
        for worker in workers:
            if self._wants(worker):
                self._has_no_offer(worker)
        if self._far_workers is not None and self._is_needed() and not self._is_closed:
            found |= self._use(_ELSEWHERE, self._offer_of_bridge)
        return found

    def _wants(self, worker: str) -> bool:
        if self._uses(worker):
            return False
        with self._changed:
            is_free = worker not in self._claims and not self._is_closed
            return is_free and self._room() > len(self._claims)

    def _begin_claim(self, offer: FoundOffer) -> None:
        """On a thread of its own, because a worker may say nothing."""

        def claim() -> None:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._use(offer.worker, _given(offer))
            except CudaIpcError as wrong:
                self._look_failed(wrong)
            finally:
                with self._changed:
                    del self._claims[offer.worker]
                    self._changed.notify_all()

        name = f"cuda-ipc claim {self._service}"
        thread = threading.Thread(target=claim, name=name, daemon=True)
        with self._changed:
            if self._is_closed:
                return
            self._claims[offer.worker] = thread
            thread.start()

    def _any_of(self, workers: list[str]) -> bool:
        """Whether one of the claims led to a link. Those that take long go on beside this."""
        end = time.monotonic() + DEFAULT_MS_SERVICE_HELLO / 1000
        with self._changed:
            while not self._is_closed and not self._claims.keys().isdisjoint(workers):
                remaining = end - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
        return any(self._uses(worker) for worker in workers)

    def _look_failed(self, wrong: CudaIpcError) -> None:
        with self._changed:
            self._look_failure = wrong
        if wrong.code in _ENDING:
            self._on_failure(wrong)

    def _offer_of_bridge(self, limit: Deadline) -> tuple[FoundOffer, str | None]:
        from .elsewhere import ask_for_worker

        known = self._far_workers() if self._far_workers is not None else []
        return ask_for_worker(self._hub.socket_path, self._service, known, limit)

    def _use(self, what: str, find: Callable[[Deadline], tuple[FoundOffer, str | None]]) -> bool:
        """Claims an offer. Keeps why that could not be done, as the reason of `what`."""
        try:
            with self._limited(f'connect to a worker of "{self._service}"') as limit:
                offer, machine = find(limit)
                limit.attempt = f'connect to worker "{offer.name}"'
                channels = claim_offer(self._hub, offer, self._plan, limit, self._trusted)
            with self._changed:
                self._unusable.pop(what, None)
            self._on_link(channels, machine)
            return True
        except CudaIpcError as wrong:
            if wrong.code in _ENDING:
                raise
            # Another client was faster, or the worker is gone. The next worker may do.
            with self._changed:
                # An offer has one client ever. It may have been this one, which then knows more.
                if wrong.code != "READERS_FULL" or what not in self._unusable:
                    self._unusable[what] = wrong
            return False

    @contextlib.contextmanager
    def _limited(self, attempt: str) -> Iterator[Any]:
        """A deadline in place of seconds, which `close` cancels."""
        limit = Deadline(attempt, DEFAULT_MS_REQUEST / 1000)
        with self._changed:
            self._limits.add(limit)
            if self._is_closed:
                limit.cancel()
        try:
            yield limit
        finally:
            with self._changed:
                self._limits.discard(limit)

    def _has_no_offer(self, worker: str) -> None:
        message = (
            f'Cannot use worker "{worker}": it has no free offer, because it has clients_max '
            "clients, is closing, or makes one now. Start another worker, or raise clients_max."
        )
        with self._changed:
            self._unusable[worker] = CudaIpcError("READERS_FULL", message)


def _best_first(
    offers: list[FoundOffer], owners: dict[str, int], refused: set[str]
) -> list[FoundOffer]:
    """Those that were refused come last, so that the others have a turn.

    Before that, users take turns: one may make any number of offers that say nothing.
    """
    turns: Counter[int] = Counter()
    keys: dict[str, tuple[bool, int]] = {}
    for offer in offers:
        uid = owners[offer.name]
        keys[offer.name] = offer.worker in refused, turns[uid]
        turns[uid] += 1
    return sorted(offers, key=lambda offer: keys[offer.name])


def _given(offer: FoundOffer) -> Callable[[Deadline], tuple[FoundOffer, str | None]]:
    return lambda _: (offer, None)


def _words(error: CudaIpcError) -> str:
    return f"{error.code}: {error.message}"
