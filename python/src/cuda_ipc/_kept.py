"""A lease that lasts as long as the last view of the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._fds import is_finalizing

if TYPE_CHECKING:
    from ._leases import HeldLease
    from ._memory import Memory


class KeptMemory:
    """Mapped memory that gives its lease back when nothing views it any more."""

    def __init__(self, memory: Memory, held: HeldLease, hub: object) -> None:
        self._memory = memory
        self._held = held
        # A hub that nobody else refers to hangs up after this.
        self._hub = hub
        self.readonly = memory.readonly
        self.device = memory.device

    @property
    def buffer(self) -> Any:
        return self._memory.buffer

    @property
    def address(self) -> int:
        return self._memory.address

    def read(self, start: int, length: int) -> bytes:
        return self._memory.read(start, length)

    def write(self, start: int, data: memoryview) -> None:
        self._memory.write(start, data)

    def finish(self) -> None:
        self._memory.finish()

    def fds(self) -> list[int]:
        return self._memory.fds()

    def __del__(self) -> None:
        if not is_finalizing():
            self._held.release()
