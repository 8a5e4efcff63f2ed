"""A worker's offers. An offer is a channel for replies with one reader.

If the client that opens it leaves before it has made its channel, the worker makes another offer.

The hub keeps a service's name for its user as long as the service has an offer or a link. So what
has ended goes only once the next offer is there: otherwise another user could claim the only offer,
stay silent, and take the name in the moment without one.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._choices import Sharing
from .._deadline import Deadline, GrowingPause
from .._hub.sharing import checked_sharing
from .._protocol import DEFAULT_MS_REQUEST
from ..channel_reader import ChannelReader
from ..channel_writer import ChannelWriter
from ..errors import CudaIpcError, CudaIpcTimeout
from .envelope import HELLO, encode_envelope
from .names import new_worker_id, reply_name, request_name
from .plan import hello_of

if TYPE_CHECKING:
    from ..hub import Hub
    from .worker import Service

#: Enough for a thread that waits for nothing to end, also on a busy machine.
_NO_TIME_S = 1.0


class WorkerOffers:
    """Keeps one offer of a worker open while the worker has room for another client."""

    def __init__(
        self,
        service: Service,
        hub: Hub,
        device: str,
        sharing: Sharing | None,
        timeout: float | None,
    ) -> None:
        """Makes the first offer. Raises as `create_channel`."""
        self._service = service
        self._hub = hub
        self._plan = service._plan
        self._device = device
        self._sharing = sharing
        self._worker = new_worker_id()
        self._made = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._wait: Deadline | None = None
        # No offer is open, so what ends stays until the next one is.
        self._keeps_name = False
        self._ended: list[ChannelWriter] = []
        self._offer: ChannelWriter | None = self._make(timeout)
        self._thread = threading.Thread(
            target=self._run, name=f"cuda-ipc offers {service.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def room_came(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def leave(self, replies: ChannelWriter) -> None:
        """Closes the replies of a link or an offer that has ended, or soon."""
        with self._changed:
            if self._keeps_name:
                self._ended.append(replies)
                return
        self._service._closings.close(replies)

    def stop(self) -> None:
        """Takes the open offer back, soon."""
        with self._changed:
            self._is_closed = True
            wait = self._wait
            self._changed.notify_all()
        if wait is not None:
            wait.cancel()

    def close(self, deadline: Deadline) -> bool:
        """Takes the open offer back. False if that lasts longer than the deadline.

        It takes no time, unless a GPU that is at work holds up the memory of the next offer.
        """
        self.stop()
        if self._thread.ident is None:
            # It did not start, or finds at its first step that nothing is left to do.
            self._drop_offer()
            return True
        remaining = deadline.remaining
        self._thread.join(None if remaining is None else max(remaining, _NO_TIME_S))
        return not self._thread.is_alive()

    def _make(self, timeout: float | None) -> ChannelWriter:
        facts = self._plan.reply
        name = reply_name(self._service.name, self._worker, self._made)
        self._made += 1
        replies = self._hub._new_channel(
            name,
            facts,
            self._device,
            timeout,
            checked_sharing(self._sharing),
            workers=self._plan.workers,
        )
        try:
            hello = encode_envelope(name, HELLO, 0, hello_of(self._plan), facts.meta_bytes_max)
            replies.loan()._commit(hello, None, 0, None)
        except BaseException:
            replies.close()
            raise
        return replies

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pause = GrowingPause()
        while not self._is_closed:
            try:
                if self._offer is None:
                    self._offer = self._next()
                requests = self._taken(self._offer)
                self._keeps_name = True
                replies, self._offer = self._offer, None
                self._service._on_taken(requests, replies)
                pause = GrowingPause()
                self._await_room()
            except CudaIpcError as wrong:
                self._keeps_name = True
                self._drop_offer()
                if wrong.code == "CLOSED" or self._hub.closed:
                    break
                # The hub may be full, or a client may send nonsense again and again.
                with self._changed:
                    if not self._is_closed:
                        self._changed.wait(pause.next())
        self._close_ended(keeps_name=False)
        self._drop_offer()

    def _next(self) -> ChannelWriter:
        keeps_name = True
        try:
            with self._limited("offer a link to a client", DEFAULT_MS_REQUEST / 1000) as limit:
                offer = self._make(limit)
            keeps_name = False
            return offer
        finally:
            # Also if it failed, perhaps for lack of the room that these take.
            self._close_ended(keeps_name)

    def _drop_offer(self) -> None:
        offer, self._offer = self._offer, None
        if offer is not None:
            self.leave(offer)

    def _close_ended(self, keeps_name: bool) -> None:
        with self._changed:
            self._keeps_name = keeps_name
            ended, self._ended = self._ended, []
        for replies in ended:
            self._service._closings.close(replies)

    def _await_room(self) -> None:
        with self._changed:
            while not self._service._has_room and not self._is_closed:
                self._changed.wait()

    def _taken(self, offer: ChannelWriter) -> ChannelReader:
        """The requests of the client that claims the offer.

        Raises ABORTED; PEER_GONE if a client has claimed it and stays silent; INVALID_DESCRIPTOR
        if the client has made a channel of another shape.
        """
        silent: int | None = None
        while True:
            name, stream = request_name(offer.name), self._plan.stream
            try:
                with self._limited(f'serve "{offer.name}"', self._plan.claim_timeout) as limit:
                    return self._checked(
                        offer.name,
                        self._hub.open_channel(name, start="oldest", stream=stream, timeout=limit),
                    )
            except CudaIpcTimeout:
                # A client that is found in two looks in a row may have been stopped.
                found = self._claimant(offer.name)
                if found is not None and found == silent:
                    raise CudaIpcError(
                        "PEER_GONE",
                        f'Cannot serve "{offer.name}": a client claimed it and is silent',
                    ) from None
                silent = found

    @contextlib.contextmanager
    def _limited(self, attempt: str, seconds: float) -> Iterator[Any]:
        """A deadline in place of seconds, which `stop` cancels."""
        wait = Deadline(attempt, seconds)
        with self._changed:
            self._wait = wait
            if self._is_closed:
                wait.cancel()
        try:
            yield wait
        finally:
            with self._changed:
                self._wait = None

    def _claimant(self, name: str) -> int | None:
        """The process that reads the offer. Raises NOT_FOUND if nobody can find the offer."""
        try:
            with self._limited(f'inspect "{name}"', DEFAULT_MS_REQUEST / 1000) as limit:
                _, holders = self._hub.inspect(name, limit)
        except CudaIpcError as wrong:
            if wrong.code == "NOT_FOUND":
                raise
            return None
        return next((holder.pid for holder in holders if holder.role == "reader"), None)

    def _checked(self, name: str, requests: ChannelReader) -> ChannelReader:
        wanted, found = self._plan.request, requests._parts.facts
        same = (found.dtype, found.shape, found.slots, found.meta_bytes_max) == (
            wanted.dtype,
            wanted.shape,
            wanted.slots,
            wanted.meta_bytes_max,
        )
        if same:
            return requests
        requests._leave()  # no work of a GPU uses it
        raise CudaIpcError(
            "INVALID_DESCRIPTOR",
            f'Cannot serve "{name}": its client sends {found.dtype.name}{list(found.shape)} in '
            f"{found.slots} slots, wanted {wanted.dtype.name}{list(wanted.shape)} in "
            f"{wanted.slots}",
        )
