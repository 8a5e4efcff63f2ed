"""Streams of GPUs: they write words in shared host memory, and wait for those of other processes.

docs/protocol.md ("Timelines") has the rules. Streams come from the frameworks that made them.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Collection, Iterable
from typing import Any

from ._cuda import context_at
from ._cuda_library import Entered, check, current_context, declare
from ._deadline import Deadline
from ._layout import INTEGER_MAX
from ._words import Words
from .errors import CudaError, CudaIpcError

_PORTABLE, _DEVICE_MAP, _READ_ONLY = 1, 2, 8
_GREATER_OR_EQUAL, _FENCED = 0, 0
_NOT_SUPPORTED = 801
#: Another context is current, or none: CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE.
_NOT_CURRENT = (201, 400)
#: Handles up to this one name default streams: of the context that is current.
_PER_THREAD = 2

# SAFETY: ctypes checks and widens by these; each is the prototype of cuda.h.
_u64, _uint, _p = ctypes.c_uint64, ctypes.c_uint, ctypes.c_void_p
_PROTOTYPES: dict[str, list[Any]] = {
    "cuStreamGetCtx": [_p, _p],
    "cuMemHostRegister_v2": [_p, ctypes.c_size_t, _uint],
    "cuMemHostUnregister": [_p],
    "cuMemHostGetDevicePointer_v2": [_p, _p, _uint],
    "cuStreamWaitValue64_v2": [_p, _u64, _u64, _uint],
    "cuStreamWriteValue64_v2": [_p, _u64, _u64, _uint],
}

_declared: ctypes.CDLL | None = None


def _driver() -> ctypes.CDLL:
    global _declared
    if _declared is None:
        _declared = declare(_PROTOTYPES)
    return _declared


class Stream:
    """A stream of a framework, and the context that its work runs in."""

    __slots__ = ("context", "handle", "owner")

    def __init__(self, context: int, handle: int, owner: object) -> None:
        self.context = context
        self.handle = handle
        #: WHY kept: a handle may be used again once the framework has destroyed its stream.
        self.owner = owner

    def is_same(self, other: Stream) -> bool:
        return self.handle == other.handle and self.context == other.context


class GivenStreams:
    """The streams that a caller gives to one channel."""

    __slots__ = ("_last", "_ordinal")

    def __init__(self, ordinal: int | None) -> None:
        """`ordinal` is the device of the channel's memory; None is the host."""
        self._ordinal = ordinal
        self._last: Stream | None = None

    def find(self, stream: object) -> Stream:
        """Raises TypeError or ValueError for what is no stream."""
        if isinstance(stream, Stream):
            return stream
        last = self._last
        if last is not None and last.owner is stream:
            return last
        found = _stream_of(stream, self._ordinal)
        # WHY not integers: their streams may be destroyed, and others get the same handle.
        if found.handle > _PER_THREAD and not isinstance(stream, int):
            self._last = found
        return found


def _stream_of(stream: object, ordinal: int | None) -> Stream:
    handle, own_ordinal = _handle_of(stream)
    where = ordinal if own_ordinal is None else own_ordinal
    context = current_context() if where is None else 0
    if context == 0:
        context = context_at(where or 0).handle
    if handle > _PER_THREAD:
        found = ctypes.c_void_p()
        with Entered(context):
            status = _driver().cuStreamGetCtx(handle, ctypes.byref(found))
        # A stream of a green context has no context that this call could name.
        if status != _NOT_SUPPORTED:
            check("cuStreamGetCtx", status)
            context = found.value or context
    return Stream(context, handle, stream)


def check_stream(stream: object) -> None:
    """Raises TypeError or ValueError for what is no stream."""
    if not isinstance(stream, Stream):
        _handle_of(stream)


def _handle_of(stream: Any) -> tuple[int, int | None]:
    """The handle, and the ordinal of the device where the object says it."""
    if isinstance(stream, int):
        return _checked(stream, stream), None
    handle = getattr(stream, "cuda_stream", None)  # PyTorch
    if handle is not None:
        return _checked(handle, stream), getattr(stream.device, "index", None)
    named = getattr(stream, "__cuda_stream__", None)  # cuda.core, CuPy, Numba
    if named is not None:
        found = named() if callable(named) else named
        if not isinstance(found, tuple) or len(found) != 2 or found[0] != 0:
            raise ValueError(f"__cuda_stream__ of stream is {found!r}, wanted (0, handle)")
        return _checked(found[1], stream), None
    handle = getattr(stream, "ptr", None)  # CuPy
    if handle is not None:
        return _checked(handle, stream), None
    raise TypeError(
        f"stream must be a stream of PyTorch, CuPy or cuda.core, or a handle as an integer, not "
        f"{stream!r}"
    )


def _checked(handle: object, stream: object) -> int:
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError(f"the handle of stream {stream!r} is {handle!r}, wanted an integer")
    if not 0 <= handle < 2**64:
        raise ValueError(f"stream must be a handle from 0 to 2**64 - 1, not {handle}")
    return handle


class StreamWords:
    """The first bytes of a memory file that is mapped here, as streams see them."""

    def __init__(self, words: Words, byte_length: int) -> None:
        self._words = words
        self._byte_length = byte_length
        self._address = 0
        self._pointers: dict[int, int] = {}

    def wait(self, stream: Stream, index: int, value: int) -> None:
        """Enqueues: the stream goes on once the word of 8 bytes at `index` has this value."""
        # SYNC: pairs with the `write` of another process, and with its stores.
        self._enqueue(_driver().cuStreamWaitValue64_v2, stream, index, value, _GREATER_OR_EQUAL)

    def write(self, stream: Stream, index: int, value: int) -> None:
        """Enqueues: the word gets this value once the stream has done its work so far."""
        # SYNC: the default is a fence. Who sees the value sees all earlier work of the stream.
        self._enqueue(_driver().cuStreamWriteValue64_v2, stream, index, value, _FENCED)

    def prepare(self, stream: Stream) -> None:
        """Registers the memory for this stream now. The driver may wait for the device for that."""
        if stream.context not in self._pointers:
            with Entered(stream.context):
                self._register(stream.context)

    def close(self) -> None:
        """Call it before the words are unmapped, when no stream uses them any more."""
        address, self._address = self._address, 0
        if address != 0:
            context = next(iter(self._pointers))
            self._pointers = {}
            with contextlib.suppress(CudaIpcError), Entered(context):
                _driver().cuMemHostUnregister(address)

    def _enqueue(self, call: Any, stream: Stream, index: int, value: int, flags: int) -> None:
        if stream.context not in self._pointers:
            self.prepare(stream)
        word = self._pointers[stream.context] + 8 * index
        # WHY tried first: to ask which context is current takes longer than the call.
        if stream.handle > _PER_THREAD:
            status = call(stream.handle, word, value, flags)
            if status == 0:
                return
            if status not in _NOT_CURRENT:
                check(call.__name__, status)
        with Entered(stream.context):
            check(call.__name__, call(stream.handle, word, value, flags))

    def _register(self, context: int) -> None:
        """Finds the address of the first word for streams of this context, which is current."""
        if self._address == 0:
            address = self._words.address
            flags = _PORTABLE | _DEVICE_MAP | (0 if self._words.writable else _READ_ONLY)
            # SAFETY: the words stay mapped until after `close`.
            status = _driver().cuMemHostRegister_v2(address, self._byte_length, flags)
            check("cuMemHostRegister", status)
            self._address = address
        found = ctypes.c_void_p()
        status = _driver().cuMemHostGetDevicePointer_v2(ctypes.byref(found), self._address, 0)
        check("cuMemHostGetDevicePointer", status)
        self._pointers[context] = found.value or 0


class OrderedTimeline:
    """A timeline that several streams signal with growing values.

    Each stream waits for the one that signalled before, so a value says that all earlier ones were
    reached.
    """

    def __init__(self, words: StreamWords, index: int) -> None:
        self._words = words
        self._index = index
        self._last: Stream | None = None
        #: The last value that was signalled.
        self.last_value = 0
        #: Of the streams that have signalled.
        self.contexts: set[int] = set()

    def signal(self, stream: Stream, value: int) -> None:
        """Enqueues: the timeline reaches this value after all earlier ones and this work."""
        assert self.last_value < value <= INTEGER_MAX
        if stream is self._last:
            self._words.write(stream, self._index, value)
        else:
            self.wait_on(stream, self.last_value)
            self._words.write(stream, self._index, value)
            self.contexts.add(stream.context)
            self._last = stream
        self.last_value = value

    def wait_on(self, stream: Stream, value: int) -> None:
        """Enqueues: the stream waits until this value, which was signalled before, is reached."""
        last = self._last
        if last is not stream and last is not None and value > 0 and not last.is_same(stream):
            self._words.wait(stream, self._index, value)


def finish_contexts(contexts: Collection[int], deadline: Deadline) -> None:
    """Waits for all work of these contexts, if their devices can still do it. Raises TIMEOUT."""
    if not contexts:
        return
    # WHY a thread: the driver's call has no time limit, and a signal does not end it.
    waits = threading.Thread(target=_finish_contexts, args=(tuple(contexts),), daemon=True)
    try:
        waits.start()
    except RuntimeError:  # the interpreter is about to end
        _finish_contexts(contexts)
        return
    waits.join(deadline.remaining)
    if waits.is_alive():
        raise deadline.timed_out("a GPU is still at work for this process")


def _finish_contexts(contexts: Iterable[int]) -> None:
    for context in contexts:
        with contextlib.suppress(CudaError), Entered(context):
            check("cuCtxSynchronize", _driver().cuCtxSynchronize())
