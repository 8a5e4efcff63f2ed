"""Objects that close at the end of `with`, and when the program drops them."""

from __future__ import annotations

from typing import TypeVar

from ._fds import is_finalizing

Self = TypeVar("Self", bound="Closing")


class Closing:
    #: Missing if the constructor has failed.
    _closed: bool

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not is_finalizing():
            self.close()
