"""A client's accounting of one link: whether it may send another request.

Neither side may ever wait for a slot because of the other. So each open request reserves one slot
for its cancellation and one for its reply. docs/protocol.md ("Links of a service") has the rule.
"""

from __future__ import annotations


def slots_of(depth: int) -> int:
    """The slots of either channel of a link."""
    return 2 * depth


class _Sent:
    __slots__ = ("cancelled", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.cancelled = False


class LinkWindow:
    """`depth` is the most requests that are open at a time."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._slots = slots_of(depth)
        # The first entry of each is the oldest, because a dict keeps the order of insertion.
        self._requests: dict[int, _Sent] = {}
        self._held: dict[int, None] = {}
        self._next_request = 0
        self._next_reply = 0
        self._uncancelled = 0

    @property
    def under_way(self) -> int:
        """Requests without an answer."""
        return len(self._requests)

    def is_open(self, number: int) -> bool:
        """Whether the request has no answer."""
        return number in self._requests

    @property
    def held(self) -> int:
        """Replies that are not released."""
        return len(self._held)

    @property
    def can_send(self) -> bool:
        if len(self._requests) >= self._depth:
            return False
        requests = self._request_span() + 1 + self._uncancelled + 1
        replies = self._reply_span() + len(self._requests) + 1
        return requests <= self._slots and replies <= self._slots

    def sent(self, number: int) -> None:
        self._requests[number] = _Sent(self._next_request)
        self._next_request += 1
        self._uncancelled += 1

    def passed_over(self, slots: int) -> None:
        """Slots that were given back while a stream may still write to them count as messages."""
        self._next_request += slots

    def cancel(self, number: int) -> bool:
        """Whether a cancellation must be sent now. It counts from here on."""
        sent = self._requests.get(number)
        if sent is None or sent.cancelled:
            return False
        sent.cancelled = True
        self._uncancelled -= 1
        self._next_request += 1
        return True

    def answered(self, number: int) -> int | None:
        """The position of the reply, for `given_back`; None if no such request is open."""
        sent = self._requests.pop(number, None)
        if sent is None:
            return None
        if not sent.cancelled:
            self._uncancelled -= 1
        position = self._next_reply
        self._next_reply += 1
        self._held[position] = None
        return position

    def given_back(self, position: int) -> None:
        self._held.pop(position, None)

    def _request_span(self) -> int:
        for sent in self._requests.values():
            return self._next_request - sent.position
        return 0

    def _reply_span(self) -> int:
        for position in self._held:
            return self._next_reply - position
        return 0
