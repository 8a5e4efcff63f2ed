"""Closes the channels of links. What waits for streams does so on a thread of its own.

So neither the thread that receives nor the lock of a client or a worker waits for a GPU.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from .._deadline import NO_DEADLINE, Deadline
from ..channel_writer import ChannelWriter
from ..errors import CudaIpcError
from .promise import Promise, in_background

if TYPE_CHECKING:
    from ..channel_reader import ChannelReader


class Closings:
    """`lock` guards the channels."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._under_way: set[Promise[None]] = set()

    def close(self, channel: ChannelReader | ChannelWriter) -> None:
        """Closes it now, or once its streams are done. It must not be used any more."""
        if not channel._has_gpu_work and channel._parts.memory.buffer is not None:
            with self._lock:
                channel.close()
            return
        try:
            closing = in_background(lambda: self._finish_and_close(channel))
        except RuntimeError:  # the interpreter is about to end
            self._finish_and_close(channel)
            return
        with self._lock:
            self._under_way.add(closing)
        closing.then(lambda: self._end(closing))

    def wait(self, deadline: Deadline) -> None:
        """Raises TIMEOUT. What has begun goes on."""
        with self._lock:
            under_way = list(self._under_way)
        for closing in under_way:
            done = threading.Event()
            closing.then(done.set)
            if not done.wait(deadline.remaining):
                raise deadline.timed_out("a GPU is still at work for this process")

    def _finish_and_close(self, channel: ChannelReader | ChannelWriter) -> None:
        memory = channel._parts.memory
        try:
            if isinstance(channel, ChannelWriter):
                with self._lock:
                    channel._take_back()
            channel._finish(NO_DEADLINE)
            # WHY here: the end of GPU memory waits for all work of its context.
            with contextlib.suppress(CudaIpcError):
                memory.finish()
        finally:
            with self._lock:
                channel._leave()

    def _end(self, closing: Promise[None]) -> None:
        with self._lock:
            self._under_way.discard(closing)
