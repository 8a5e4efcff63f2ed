"""One attempt to reach the hub that listens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ._connection import Connection
from ._deadline import Deadline, GrowingPause
from ._packets import ConnectionEnded
from ._place import check_folder
from .errors import CudaIpcError, system_error


def try_connect(
    path: str,
    trusted: frozenset[int],
    program: str,
    session: int | None,
    deadline: Deadline,
    pause: Callable[[float], object] = time.sleep,
) -> Connection | None:
    """None if no hub listens. Tries again while a hub has no room in its queue."""
    pauses = GrowingPause(0.01)
    while True:
        if not check_folder(path, trusted):
            return None
        try:
            connection = Connection(path, trusted)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except BlockingIOError:
            pass
        except OSError as cause:
            raise system_error(f"connect to the hub at {path}", cause) from cause
        else:
            try:
                connection.hello(program, session, deadline)
                return connection
            except ConnectionEnded:
                final = connection.ended
                if isinstance(final, CudaIpcError):
                    raise final from None
            except BaseException:
                connection.end(None)
                raise
        deadline.check(lambda: "a hub listens there, and more clients connect than it can admit")
        pause(pauses.next())


def own_program() -> str:
    import sys

    return os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "python") or "python"
