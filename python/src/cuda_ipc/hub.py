"""The hub: where processes share memory by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ._closing import ClosingAsync, OfProcess
from ._hub.services import HubServices
from ._hub.tensors import HubTensors
from ._hub.timelines import HubTimelines
from ._keywords import class_explains_keywords
from ._waiting import async_close
from .errors import CudaIpcError


@class_explains_keywords
class Hub(HubTensors, HubTimelines, HubServices, ClosingAsync, OfProcess):
    """A session with the hub. Leaving `with` gives back all that it holds.

    Any number of threads may use it. After a fork only the parent may; connect in the child.
    """

    @property
    def socket_path(self) -> str:
        return self._link.path

    @property
    def closed(self) -> bool:
        """True after `close()`, and if no hub is looked for any more."""
        return self._link.ended is not None

    def on_reconnect(self, listener: Callable[[bool], object]) -> None:
        """Calls `listener` after each return to a hub, on another thread.

        Its argument is False if the hub has lost some of what this process held.
        """
        self._link.on_reconnect.append(listener)

    def on_end(self, listener: Callable[[CudaIpcError], object]) -> None:
        """Calls `listener` once if no hub is looked for any more, on another thread.

        If that is so already, it is called soon. Its argument says why: the hub was stopped on
        purpose, or none was found in time. What is mapped stays usable. `close()` does not call it.
        """
        self._link.tell_end(listener)

    def close(self) -> None:
        """Gives back all that it holds, and hangs up. The second time it does nothing.

        Services are closed first. They finish the requests that they work on. Memory of `share`
        with the mechanism "legacy" is waited for, for up to two seconds: until other processes
        have closed it, and until nothing here uses theirs. What is still in use then stays until
        this process ends.
        """
        # All are closed, even if one of them raises an error.
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._link.close)
            for handle in self._kept():
                last_first.callback(handle.close)
            for service in list(self._services):
                last_first.callback(service.close)

    # Handlers of services may be coroutines of this event loop, which has to go on meanwhile.
    close_async = async_close(close)

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # What it has opened goes on: each object holds the link itself.
        link = getattr(self, "_link", None)
        if link is not None and link.ended is None and len(self._handles) == 0:
            link.close(wait=False)

    def __repr__(self) -> str:
        return f"<Hub {self._link.path!r}{' closed' if self.closed else ''}>"
