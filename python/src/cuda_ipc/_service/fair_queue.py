"""A queue that takes one item of each source in turn, so a busy client does not hold up others."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class FairQueue(Generic[S, T]):
    def __init__(self) -> None:
        #: In the order of their turns.
        self._by_source: dict[S, deque[T]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_source.values()))

    def push(self, source: S, item: T) -> None:
        self._by_source.setdefault(source, deque()).append(item)

    def shift(self) -> T | None:
        for source, items in self._by_source.items():
            item = items.popleft()
            del self._by_source[source]
            if items:
                self._by_source[source] = items
            return item
        return None

    def items(self, source: S) -> list[T]:
        return list(self._by_source.get(source, ()))

    def delete(self, source: S, item: T) -> bool:
        """Whether the item was in the queue."""
        items = self._by_source.get(source)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._by_source[source]
        return True

    def clear(self) -> list[T]:
        """Removes and returns all items."""
        items = [item for items in self._by_source.values() for item in items]
        self._by_source.clear()
        return items
