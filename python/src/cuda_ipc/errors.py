"""The exceptions of this package: one family, with a code that programs can act on."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import NoReturn

from ._error_codes import ERROR_CODES


class CudaIpcError(Exception):
    """Something that a caller may act on.

    `code` is one of the table in docs/reference.md. `remedy` says what to do, and `retryable`
    whether the same call may succeed later.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        facts = ERROR_CODES[code]
        self.code = code
        self.remedy = facts.remedy
        self.retryable = facts.retryable

    def __str__(self) -> str:
        return f"{self.args[0]} [{self.code}: {self.remedy}]"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code!r}, {self.message!r})"

    @property
    def message(self) -> str:
        """The message without code and remedy."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[CudaIpcError], tuple[str, str]]:
        return (error_type(self.code), (self.code, self.message))


class CudaIpcTimeout(CudaIpcError, TimeoutError):
    """The code is TIMEOUT. It is a `TimeoutError`, too."""


class CudaError(CudaIpcError):
    """A call of the driver failed. `name` is the driver's own name of the error."""

    def __init__(self, code: str, message: str, name: str = "") -> None:
        super().__init__(code, message)
        self.name = name


class Farewell(CudaIpcError):
    """The hub's last words, after which no other hub is looked for. Its code is in FAREWELLS."""


#: The hub was stopped on purpose, or somebody has disconnected this client.
FAREWELLS = ("HUB_GONE", "DISCONNECTED")


def error_type(code: str) -> type[CudaIpcError]:
    return CudaIpcTimeout if code == "TIMEOUT" else CudaIpcError


def error(code: str, message: str) -> CudaIpcError:
    """An error of this code; of a code that is not known here, SYSTEM_ERROR."""
    known = code if code in ERROR_CODES else "SYSTEM_ERROR"
    return error_type(known)(known, message)


_BY_ERRNO = {
    errno.EMFILE: "TOO_MANY_FDS",
    errno.ENFILE: "TOO_MANY_FDS",
    errno.ETOOMANYREFS: "TOO_MANY_FDS",
    errno.ENOMEM: "OUT_OF_MEMORY",
    errno.ENOSPC: "DISK_FULL",
    errno.EDQUOT: "DISK_FULL",
    errno.EFBIG: "LIMIT_EXCEEDED",
    errno.EPROTOTYPE: "WRONG_KIND",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
}


#: What to do, if the remedy of the code says too little.
_ADVICE = {
    errno.EFBIG: ". Raise the limit for the size of files: ulimit -f unlimited",
    errno.EPROTOTYPE: ". Another program listens there. Set CUDA_IPC_SOCKET to the hub's socket",
}


def system_error(attempt: str, cause: OSError) -> CudaIpcError:
    """Turns an error of the operating system into one of this family."""
    code = _BY_ERRNO.get(cause.errno or 0, "SYSTEM_ERROR")
    name = errno.errorcode.get(cause.errno or 0, "error")
    advice = _ADVICE.get(cause.errno or 0, "")
    made = error(code, f"Cannot {attempt}: {name}, {os.strerror(cause.errno or 0)}{advice}")
    made.__cause__ = cause
    return made


@contextlib.contextmanager
def coded(attempt: str) -> Iterator[None]:
    """Turns errors of the operating system into those of this family."""
    try:
        yield
    except CudaIpcError:  # TIMEOUT is an OSError, too
        raise
    except OSError as cause:
        raise system_error(attempt, cause) from cause


def closed(attempt: str) -> NoReturn:
    raise CudaIpcError("CLOSED", f"Cannot {attempt}: it was closed")
