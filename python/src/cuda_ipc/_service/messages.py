"""What both sides of a service exchange: received messages, and slots to fill."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from .._closing import OfChannel
from .._waiting import gpu_pauses, run_pauses, suspend_pauses, to_its_end
from ..arrays import Array
from ..channel_message import Message
from ..channel_slot import Slot
from ..errors import CudaIpcError
from .envelope import Envelope


class SlotToFill(OfChannel):
    """The slot of a request or a reply. Fill it. It is sent when your function returns.

    With the `stream` of the service or of its client, fill it by that stream.
    """

    __slots__ = ("_lock", "_slot")

    def __init__(self, slot: Slot, lock: Any) -> None:
        """`lock` guards the slot's channel."""
        self._slot = slot
        self._lock = lock

    @property
    def array(self) -> Array:
        """The whole slot. Raises CLOSED after it was sent or given back."""
        return self._slot.array

    @property
    def data(self) -> memoryview:
        """The whole slot as bytes to fill. Raises UNSUPPORTED on a GPU, CLOSED."""
        return self._slot.data

    def numpy(self) -> Any:
        """A NumPy view of the whole slot, on the host."""
        return self.array.numpy()

    def write(self, data: Any) -> None:
        """Copies what `ChannelWriter.send` takes to the start of the slot.

        With a stream the CPU first waits until no stream of the other side reads from the slot.
        Raises MESSAGE_TOO_LARGE, CLOSED.
        """
        self._copy(data)

    async def write_async(self, data: Any) -> None:
        """As `write`, for asyncio. On the host only the wait differs.

        If the task is cancelled, the copy continues on its thread. No other message gets the slot
        before its end.
        """
        await suspend_pauses(self._until_free())
        await self._slot._writer._write_async(self._slot, data)

    def _copy(self, data: Any) -> int:
        run_pauses(self._until_free())
        return self._slot._write(data)

    def _until_free(self) -> Generator[float, None, None]:
        """The pauses until no stream of the other side reads from the slot."""
        for pause in gpu_pauses():
            with self._lock:
                if self._slot._may_write():
                    return
            yield pause

    def _write_message(self, data: Any, shape: int | Sequence[int] | None) -> None:
        """As `write`. The data must fill a message of this shape."""
        self._slot._check_filled(self._copy(data), shape)


class MessageLink(Protocol):
    """The side of a link that a message came to."""

    def release(self, message: ServiceMessage, stream: Any) -> None:
        """Gives its slot back, once. Raises TypeError, ValueError, and the errors of the GPU."""

    def is_ready(self, message: Message) -> bool: ...

    @property
    def waits_for_gpu(self) -> bool:
        """Whether `release` without a stream waits for the GPU."""


class ServiceMessage(OfChannel):
    """A request or a reply in place. Its data stay as they are until `release()`.

    `byte_length` is in bytes. `timestamp_ms` is Unix time in milliseconds, by the sender's clock.
    `meta` are the bytes that came with it.
    """

    def __init__(self, message: Message, envelope: Envelope, link: MessageLink) -> None:
        self._message = message
        self._envelope = envelope
        self._link = link
        self._is_released = False

    @property
    def byte_length(self) -> int:
        return self._message.byte_length

    @property
    def timestamp_ms(self) -> float:
        return self._message.timestamp_ms

    @property
    def shape(self) -> tuple[int, ...]:
        """In elements."""
        return self._message.shape

    @property
    def array(self) -> Array:
        """The data in place, for reading. It closes with the message. Raises CLOSED."""
        return self._message.array

    @property
    def data(self) -> memoryview:
        """The data as bytes in place. Raises UNSUPPORTED on a GPU, CLOSED."""
        return self._message.data

    def numpy(self) -> Any:
        """A NumPy view in place, on the host. Let go of it before `release()`."""
        return self.array.numpy()

    @property
    def meta(self) -> bytes:
        return self._envelope.meta

    @property
    def json(self) -> Any:
        """The meta as the value that was given; None if it is bytes, or there is none."""
        return self._envelope.json

    @property
    def closed(self) -> bool:
        return self._is_released or self._message.closed

    @property
    def ready(self) -> bool:
        """Whether its data are there. Only with a stream does a message come before them.

        Raises PEER_GONE if its sender died before: what was computed from it is worthless. It can
        still be asked after `release()`.
        """
        return self._link.is_ready(self._message)

    def release(self, *, stream: Any = None) -> None:
        """Gives the slot back. The second time it does nothing.

        The other side gets it once `stream`, by default that of the service or of its client, has
        done its work so far. Without a stream it gets it at once; on a GPU the call then waits for
        all work of this process's context. Raises TypeError or ValueError for a wrong stream, and
        the errors of the GPU.
        """
        if not self._is_released:
            self._link.release(self, stream)

    async def release_async(self, *, stream: Any = None) -> None:
        """As `release`, for asyncio. If the task is cancelled, the slot is given back later."""
        if stream is None and self._link.waits_for_gpu and not self.closed:
            await to_its_end(self.release)
        else:
            self.release(stream=stream)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release_async()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class HeldReply(ServiceMessage):
    """A reply in the hands of the user."""


class ServiceRequest(ServiceMessage):
    """A request as the handler receives it."""

    def __init__(self, message: Message, envelope: Envelope, link: MessageLink) -> None:
        super().__init__(message, envelope, link)
        self.number = envelope.number
        #: When the client stops waiting, in seconds of time.monotonic(). None if it never does.
        self.deadline = envelope.deadline_micros / 1e6 if envelope.deadline_micros else None
        self._given_up: CudaIpcError | None = None
        self._on_given_up: Callable[[], object] | None = None

    @property
    def given_up(self) -> CudaIpcError | None:
        """Why nobody waits for the reply any more; None while somebody does.

        ABORTED if the client cancelled, TIMEOUT if its deadline passed, PEER_GONE if it is gone,
        CLOSED if this worker is closing.
        """
        return self._given_up

    def check(self) -> None:
        """Raises the error of `given_up`. Call it now and then in long work."""
        if self._given_up is not None:
            raise self._given_up

    def __repr__(self) -> str:
        return f"<ServiceRequest {self.number}>"

    def _give_up(self, code: str, found: str) -> bool:
        if self._given_up is not None:
            return False
        self._given_up = CudaIpcError(code, f"Cannot answer request {self.number}: {found}")
        if self._on_given_up is not None:
            self._on_given_up()
        return True
