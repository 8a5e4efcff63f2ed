"""The replies of one link that the program has, and how their slots are given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._ring_message import Hold
from ..channel_message import Message

if TYPE_CHECKING:
    from .client_link import ClientLink
    from .messages import HeldReply


class HeldReplies:
    """A part of its link, which it belongs to."""

    def __init__(self, link: ClientLink) -> None:
        self._link = link
        #: Where in the window they are.
        self._positions: dict[Hold, int] = {}
        link._replies.on_drop = self.drop

    def add(self, message: Message, position: int) -> None:
        """The program gets this reply. One without data is given back now."""
        self._positions[message.hold] = position
        if message.byte_length == 0:
            message.hold.is_open = True
            self.give_back(message)

    def give_back(self, message: Message, position: int | None = None) -> None:
        """Gives back what no user has seen. The position is that of one which was not added."""
        link = self._link
        with link._lock:
            added = self._positions.pop(message.hold, None)
            found = position if added is None else added
            if found is not None:
                link._replies._give_back(message, None)
                link._window.given_back(found)

    def drop(self, message: Message) -> None:
        """The program has dropped a reply. WHY later: see `Messages.drop`."""
        self._link._receiver.call_later(lambda: self._release(message, None))

    def release(self, reply: HeldReply, stream: Any) -> None:
        """Gives a reply back after the work on the stream."""
        message = reply._message
        try:
            self._release(message, stream)
        finally:
            reply._is_released = message.hold not in self._positions
            message.hold.is_open = False

    def _release(self, message: Message, stream: Any) -> None:
        link = self._link
        reader = link._replies
        by = reader._given_stream(stream) or link._stream
        if by is None and link._is_on_gpu and not message.closed:
            reader._parts.memory.finish()
        with link._lock:
            position = self._positions.pop(message.hold, None)
            if position is None:
                return
            try:
                if not link.is_settled:
                    reader._give_back(message, by)
            finally:
                link._window.given_back(position)
        if link.open:
            link._client._on_room()
        else:
            link._settle_if_free()
