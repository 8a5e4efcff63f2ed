"""Read a channel of the cuda-ipc hub in plain Python: every message in place, in order, not copied.

    with connect(program="reader.py") as hub, open_channel(hub, "frames", wait=True) as frames:
        for message in frames:
            print(message.sequence, message.missed, message.json, message.shape, len(message.data))

It follows docs/protocol.md ("The ring of a channel"). It needs Linux and Python 3.9 or newer, and
NumPy only for `message.numpy()`. It reads only host memory. Use each reader in one thread.

The protocol needs sequentially consistent loads and stores. Python has none. This file uses:

- `memoryview.cast("q")`: an item is one aligned `memcpy` of 8 bytes, which compilers for x86-64 and
  AArch64 make one instruction. No word is torn. (`struct.pack_into("<q")` goes byte by byte.)
- `membarrier` with MEMBARRIER_CMD_GLOBAL_EXPEDITED, a full barrier for the calling thread. It runs
  before and after each store, and after each load. x86-64 needs it only after stores. It costs
  about a microsecond. Sleeping needs no timeout as a safety net. If it is refused, nothing opens.

Python has no atomic addition or exchange either. None is needed, because each word has one writer.
"""

import ctypes
import json
import math
import mmap
import os
import platform
import select
import sys
import time

import cuda_ipc_client
from cuda_ipc_client import DTYPES, HostMemory, NotOpenedHere, _check, _close_all, _integer

MAGIC = (0x43504943, 0x4E414843)  # "CIPC", "CHAN"
VERSION = 1
PAGE_BYTES = 4096
POISON = 2**63 - 1
POSITIONS_MAX = 2**53 - 1 - 2**33
CLAIMS = 8
WHEN_FULL = ("wait", "drop-oldest", "drop-newest", "error")
WHEN_WRITER_GONE = ("end", "wait")

# Byte offsets in the control file, in a message header and in a reader's page.
PUBLISHED, LIMIT, STATE, ASLEEP, EXPELLED, READY, HEADERS = 128, 192, 256, 264, 320, 1024, 5120
GENERATION, SEQUENCE, TIMESTAMP, LENGTH, READY_AT, EPOCH, FLAGS, META_BYTES, RANK, PASSED_OVER, SHAPE, META = (
    0, 8, 16, 24, 32, 40, 44, 48, 52, 56, 64, 128)  # fmt: skip
P_STATE, P_MODE, P_ASLEEP, P_RELEASED, P_CLAIMS, P_DONE, P_RECEIVED, P_MISSED = 8, 12, 16, 64, 128, 192, 256, 264
CLOSED, GONE = 2, 3  # states of a writer
ATTACHED, LEFT = 1, 2  # states of a reader
JSON, SHAPED, LOST = 1, 2, 4


class ChannelCorrupt(Exception):
    """The writer's shared words are invalid."""


class ReaderExpelled(Exception):
    """The writer found invalid words in this reader's page, and ignores the reader from now on."""


class WriterGone(Exception):
    """The writer died, and this reader has received all that it committed."""


# ---------------------------------------------------------------- words in shared memory

_STRONGLY_ORDERED = platform.machine() == "x86_64"
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}.get(platform.machine())
_GLOBAL_EXPEDITED = 2
_libc = ctypes.PyDLL(None, use_errno=True)


def _fence():
    """A full memory barrier."""
    if _MEMBARRIER is None:
        raise OSError(f"channels cannot be read on {platform.machine()}: it has no membarrier that is known here")
    if _libc.syscall(_MEMBARRIER, _GLOBAL_EXPEDITED, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"membarrier: {os.strerror(error)}")


class Words:
    """The aligned words of a memory file. `load` and `store` are ordered. Other reads are plain."""

    def __init__(self, fd, length, writable):
        _check(os.fstat(fd).st_size >= length, f"a memory file of {os.fstat(fd).st_size} bytes, wanted {length}")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=protection)
        self._bytes = memoryview(self._map)
        self._long, self._int, self._float = (self._bytes.cast(code) for code in "qId")

    def load(self, at):
        return self._behind_load(self._long[at >> 3])

    def load32(self, at):
        return self._behind_load(self._int[at >> 2])

    def store(self, at, value):
        self._before_store()
        self._long[at >> 3] = value
        _fence()

    def store32(self, at, value):
        self._before_store()
        self._int[at >> 2] = value & 0xFFFFFFFF
        _fence()

    def count(self, at):
        return self._long[at >> 3]

    def small(self, at):
        return self._int[at >> 2]

    def number(self, at):
        return self._float[at >> 3]

    def copy(self, at, length):
        return bytes(self._bytes[at : at + length])

    def close(self):
        for view in (self._long, self._int, self._float, self._bytes):
            view.release()
        self._map.close()

    @staticmethod
    def _behind_load(value):
        if not _STRONGLY_ORDERED:
            _fence()
        return value

    @staticmethod
    def _before_store():
        if not _STRONGLY_ORDERED:
            _fence()


# ---------------------------------------------------------------- messages


class Message:
    """A message in place. Its data stay unchanged until it is released, as at the end of `with`."""

    def __init__(self, reader, position, header, missed):
        self._reader, self._position = reader, position
        self.missed = missed  #: messages lost since the previous one
        self.sequence, self.timestamp_ms, length, self.meta, self._is_json, self.shape = header
        at = position % reader.slots * reader._stride
        self.data = memoryview(reader._data.buffer)[at : at + length]  #: read-only

    @property
    def json(self):
        """The decoded JSON meta. None if the meta is bytes or missing."""
        return json.loads(self.meta) if self._is_json else None

    def numpy(self):
        """A NumPy array on the message's memory. Drop it before you release the message."""
        import numpy

        return numpy.frombuffer(self.data, DTYPES[self._reader.dtype][2]).reshape(self.shape)

    def release(self):
        """Give the slot back. Releasing again changes nothing."""
        reader, self._reader = self._reader, None
        if reader is not None:
            try:
                self.data.release()
            except BufferError:
                pass  # the data is still in use; from here on it may be overwritten
            reader._release(self._position)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


# ---------------------------------------------------------------- the reader


def open_channel(hub, name, start="next", lossy=False, wait=False, timeout=None):
    """Open a reader at "next", "latest" or "oldest". With `wait`, wait until the channel exists."""
    if start not in ("next", "latest", "oldest"):
        raise ValueError(f"a reader starts from next, latest or oldest, not {start!r}")
    _fence()
    request = hub._send("open", {"name": name, "access": "read", "wait": wait, "role": "reader"})
    try:
        result, fds = hub._receive(request, timeout)
    except (TimeoutError, KeyboardInterrupt):
        hub._give_up(request)
        raise
    try:
        return ChannelReader(hub, name, result, fds, start, lossy)
    except BaseException:
        _close_all(fds)
        hub.request("release", lease=result["lease"])
        raise


class ChannelReader:
    """Messages: `next(timeout)` waits, `try_next()` does not, iteration ends with the channel."""

    def __init__(self, hub, name, result, fds, start, lossy):
        self.name, self._hub, self._lease = name, hub, result["lease"]
        self._place = _integer(result.get("place"), 0, "place")
        content = self._describe(result["descriptor"], fds)
        data, control, self._room_bell, page, self._bell = self._fds = fds
        whole = _integer(result["descriptor"].get("allocationByteLength"), 1, "allocationByteLength")
        _check(whole >= self._stride * self.slots, "the memory has not all slots")
        self._data = HostMemory(data, whole, readonly=True)
        self._control = Words(control, HEADERS + self.slots * self._header_stride, writable=False)
        self._check_control(content)
        self._page = Words(page, PAGE_BYTES, writable=True)
        self.lossy = lossy or content["whenFull"] == "drop-oldest"
        self.received = self.missed = 0
        self._held = []  # [position, claim, is released], in order
        self._pending = None  # a message whose data is not ready yet
        self._sequence = None  # expected of the next message; None if unknown
        self._gap = 0  # messages lost since the last one that was returned
        self._rung = 0  # the writer's sleep for which its bell was rung last
        self._next = self._control.load(PUBLISHED)
        self._wanted(self._next >= self._first, f"{self._next} positions are published")
        self._next = self._attach(start)

    def _describe(self, descriptor, fds):
        _check(isinstance(descriptor, dict) and descriptor.get("version") == 1, "a descriptor of another version")
        content = descriptor.get("content")
        _check(isinstance(content, dict) and content.get("kind") == "channel", "it is no channel")
        if descriptor.get("mechanism") != "memfd":
            raise NotOpenedHere("its slots are GPU memory; this client reads channels in host memory")
        _check(len(fds) == 5, f"{len(fds)} descriptors came for a reader, wanted 5")
        self.slots = _integer(content.get("slots"), 1, "slots")
        self._slot_bytes = _integer(content.get("slotBytes"), 1, "slotBytes")
        self._stride = _integer(content.get("slotStride"), self._slot_bytes, "slotStride")
        self._meta_max = _integer(content.get("metaBytesMax"), 0, "metaBytesMax")
        self._header_stride = META + -(-self._meta_max // 64) * 64
        self.dtype, self.shape = content.get("dtype"), tuple(content.get("shape") or ())
        _check(self.dtype in DTYPES, f"dtype is {self.dtype!r}")
        self._item = DTYPES[self.dtype][0]
        lengths = [_integer(length, 0, "a length") for length in self.shape]
        _check(math.prod(lengths) * self._item == self._slot_bytes, "the shape has other bytes than a slot")
        return content

    def _check_control(self, content):
        control = self._control
        magic = (control.small(0), control.small(4))
        _check(magic == MAGIC, f"the control file begins with {magic}")
        _check(control.small(8) == VERSION, f"the control file is of version {control.small(8)}, wanted {VERSION}")
        self._first = control.count(56)
        found = (control.small(12), control.small(16), control.small(20), control.count(24), control.count(32),
                 control.small(40), control.small(44), control.small(48), control.small(52))  # fmt: skip
        wanted = (self.slots, content.get("readersMax"), self._meta_max, self._slot_bytes, self._stride,
                  HEADERS, self._header_stride, WHEN_FULL.index(content["whenFull"]),
                  WHEN_WRITER_GONE.index(content["whenWriterGone"]))  # fmt: skip
        _check(found == wanted, f"the control file says {found}, its descriptor {wanted}")
        _check(0 <= self._first <= POSITIONS_MAX, f"firstPosition is {self._first}")

    # ------------------------------------------------ joining

    def _attach(self, start):
        begin = position = max(self._begin(start), self._oldest())
        page = self._page
        page.store32(P_ASLEEP, (page.load32(P_ASLEEP) + 1) & ~1)
        page.store32(P_MODE, int(self.lossy))
        page.store(P_DONE, position)
        page.store(P_RELEASED, position)
        page.store32(P_STATE, ATTACHED)
        oldest = self._oldest()
        while True:
            if position < oldest:  # the writer moved on before it saw this reader
                position = oldest
                page.store(P_DONE, position)
                page.store(P_RELEASED, position)
            if self.lossy:  # only these can lose messages before their first one
                self._sequence = self._sequence_from(position)
            if position >= (oldest := self._oldest()):
                break
        if position != begin:
            self._wake_writer()
        possible = 0 <= (self._sequence or 0) <= position - self._first
        self._wanted(possible, f"message {self._sequence} comes at {position}")
        return position

    def _sequence_from(self, position):
        """The sequence of the first message from a position on. None if unknown or overwritten."""
        if position == self._first:
            return 0
        while True:
            published = self._control.load(PUBLISHED)
            found = self._nearest(position, self._oldest(), published)
            oldest = self._oldest()  # the writer moves its limit before it overwrites
            if position < oldest:
                return None
            if found is None:
                if self._control.load(PUBLISHED) == published:
                    return None
            elif found[0] >= oldest:
                return found[1]

    def _nearest(self, position, oldest, published):
        """The nearest message, later ones first: its position and the sequence it implies."""
        after = range(position, min(published, position + self.slots))
        for p in (*after, *range(position - 1, oldest - 1, -1)):
            if self._control.count(self._header(p)) == p + 1:
                return p, self._control.load(self._header(p) + SEQUENCE) + (p < position)
        return None

    def _begin(self, start):
        if start == "next":
            return self._next
        if start == "oldest":
            return self._next - self.slots
        oldest = self._oldest()
        latest = range(self._next - 1, oldest - 1, -1)
        return next((p for p in latest if self._control.count(self._header(p)) == p + 1), self._next)

    def _oldest(self):
        """The oldest position not yet overwritten by the writer. Call after loading PUBLISHED."""
        limit = self._control.load(LIMIT)
        self._wanted(limit >= self._next, f"the limit is {limit}, {self._next} positions are published")
        return max(self._first, limit - self.slots)

    # ------------------------------------------------ messages

    def try_next(self):
        """The next message, or None if there is none yet."""
        while True:
            taken = self._pending or self._take()
            if taken is None:
                return None
            position, ready_at, epoch, header, missed = taken
            if ready_at > 0 and not self._is_ready(ready_at, epoch):
                self._pending = taken
                if self._ended(epoch) and not self._is_ready(ready_at, epoch):
                    self._lose(position, missed)  # its writer died before the data was ready
                    continue
                return None
            self._pending = None
            return Message(self, position, header, missed)

    def next(self, timeout=None):
        """The next message. None after the channel was closed.

        Raises TimeoutError, WriterGone if the writer died, and ConnectionError if the hub hangs up
        during the wait, because only the hub would report the writer's death.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            message = self.try_next()
            if message is not None:
                return message
            if self._pending is not None:  # a stream rings no bell when it is done
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"no message of {self.name} in time")
                self._check_hub()
                time.sleep(0.0005)
            elif self._is_over():
                return None
            else:
                self._sleep(deadline)

    def __iter__(self):
        while (message := self.next()) is not None:
            with message:
                yield message

    def _take(self):
        while True:
            position = self._next
            if not self._has_next():
                self._check_expelled()
                return None
            claim = self._claim(position) if self.lossy else -1
            if self._next != position:
                continue
            generation, passed_over = self._said(position)
            if generation == position + 1:
                taken = self._read(position, claim)
                if taken is not None:
                    return taken
            else:  # one lap later the writer skips the claimed slot
                past = self.lossy and position < self._control.load(LIMIT) and passed_over > position
                found = f"generation {generation}, passed over {passed_over}, at position {position}"
                self._wanted(passed_over == position + 1 or past, found)
            self._pass_over(claim)

    def _said(self, position):
        """Of a slot: the position of its message and its last skipped position, each plus one."""
        at = self._header(position)
        return self._control.load(at + GENERATION), self._control.load(at + PASSED_OVER)

    def _has_next(self):
        """Whether the writer has written or skipped the next position."""
        return max(self._said(self._next)) > self._next

    def _claim(self, position):
        """Claim a position. Returns the claim, or -1 and moves `_next` if it is overtaken."""
        claim = next((c for c in range(CLAIMS) if self._page.load(P_CLAIMS + 8 * c) == 0), None)
        if claim is None:
            raise RuntimeError(f"{CLAIMS} messages are held, the most where a reader may be overtaken")
        self._page.store(P_CLAIMS + 8 * claim, position + 1)
        oldest = self._oldest()
        if position >= oldest:
            return claim
        self._page.store(P_CLAIMS + 8 * claim, 0)
        self._wake_writer()
        self._wanted(oldest <= self._control.load(PUBLISHED), f"the writer is {self.slots} before {oldest}")
        self._next = oldest
        return -1

    def _read(self, position, claim):
        """Read and hold the message at a position. None if it is lost."""
        control, at = self._control, self._header(position)
        sequence, timestamp = control.count(at + SEQUENCE), control.number(at + TIMESTAMP)
        length, ready_at, epoch = control.count(at + LENGTH), control.count(at + READY_AT), control.small(at + EPOCH)
        flags, meta_bytes = control.small(at + FLAGS), control.small(at + META_BYTES)
        sound = 0 <= length <= self._slot_bytes and meta_bytes <= self._meta_max
        sound = sound and flags < 8 and 0 <= ready_at <= position + 1
        expected = sequence if self._sequence is None else self._sequence
        self._wanted(sound and 0 <= expected <= sequence, f"message {sequence}: {length}, {meta_bytes}, {flags}")
        self._sequence = sequence + 1
        self._gap += sequence - expected
        self.missed += sequence - expected
        if flags & LOST:
            self._gap += 1
            self.missed += 1
            return None
        shape = self._shape(at, length, flags)
        header = (sequence, timestamp, length, control.copy(at + META, meta_bytes), bool(flags & JSON), shape)
        self._held.append([position, claim, False])
        self._next, self.received = position + 1, self.received + 1
        missed, self._gap = self._gap, 0
        return position, ready_at, epoch, header, missed

    def _shape(self, at, length, flags):
        if not flags & SHAPED:
            self._wanted(length % self._item == 0, f"{length} bytes of {self.dtype}")
            return self.shape if length == self._slot_bytes else (length // self._item,)
        rank = self._control.small(at + RANK)
        self._wanted(rank <= 8, f"a shape of {rank} axes")
        shape = tuple(self._control.count(at + SHAPE + 8 * axis) for axis in range(rank))
        sound = all(axis >= 0 for axis in shape) and math.prod(shape) * self._item == length
        self._wanted(sound, f"{length} bytes claim the shape {shape}")
        return shape

    def _pass_over(self, claim):
        if claim >= 0:
            self._page.store(P_CLAIMS + 8 * claim, 0)
        self._next += 1
        self._give_back()

    def _lose(self, position, missed):
        self._pending = None
        self._release(position)
        self.received, self.missed, self._gap = self.received - 1, self.missed + 1, self._gap + missed + 1

    def _release(self, position):
        held = next((held for held in self._held if held[0] == position), None)
        if held is None:
            return  # the reader is closed
        if held[1] >= 0:
            self._page.store(P_CLAIMS + 8 * held[1], 0)
        held[2] = True
        while self._held and self._held[0][2]:
            self._held.pop(0)
        self._give_back()

    def _give_back(self):
        self._page.store(P_RECEIVED, self.received)
        self._page.store(P_MISSED, self.missed)
        self._page.store(P_RELEASED, self._held[0][0] if self._held else self._next)
        self._wake_writer()

    # ------------------------------------------------ waiting

    def _wake_writer(self):
        asleep = self._control.load32(ASLEEP)
        if asleep & 1 and asleep != self._rung:  # once per sleep
            self._rung = asleep
            try:
                os.write(self._room_bell, (1).to_bytes(8, sys.byteorder))
            except BlockingIOError:
                pass  # the bell has rung already

    def _sleep(self, deadline):
        asleep = self._page.load32(P_ASLEEP)
        self._page.store32(P_ASLEEP, asleep + 1)
        try:
            if self._has_news():  # again, now that the writer can see this sleep
                return
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            bell = select.poll()
            bell.register(self._bell, select.POLLIN)
            bell.register(self._hub._socket, select.POLLRDHUP)
            if not bell.poll(left):
                raise TimeoutError(f"no message of {self.name} in time")
            try:
                os.read(self._bell, 8)
            except BlockingIOError:
                pass
            if not self._has_news():
                self._check_hub()
        finally:
            self._page.store32(P_ASLEEP, asleep + 2)

    def _check_hub(self):
        hub = select.poll()
        hub.register(self._hub._socket, select.POLLRDHUP)
        if hub.poll(0):
            raise ConnectionError(f"the hub has hung up, and nobody else tells whether the writer of {self.name} lives")

    def _has_news(self):
        state = self._control.load32(STATE)
        return self._has_next() or state in (CLOSED, GONE)

    def _is_over(self):
        state = self._control.load32(STATE)
        if state not in (CLOSED, GONE) or self._has_next():
            return False
        if state == GONE:
            raise WriterGone(f"the writer of {self.name} is gone, and all that it committed was read")
        return True

    def _line(self, epoch):
        return READY + 64 * (epoch % 64)

    def _ended(self, epoch):
        return self._control.load(self._line(epoch)) == POISON

    def _is_ready(self, value, epoch):
        reached = self._control.load(self._line(epoch))
        return (self._control.load(self._line(epoch) + 8) if reached == POISON else reached) >= value

    # ------------------------------------------------ the rest

    def close(self):
        """Release all messages and leave the channel. The seat is then free for another reader."""
        if self._lease is None:
            return
        lease, self._lease, self._held, self._pending = self._lease, None, [], None
        for claim in range(CLAIMS):
            self._page.store(P_CLAIMS + 8 * claim, 0)
        self._page.store32(P_STATE, LEFT)
        self._wake_writer()
        for words in (self._page, self._control):
            words.close()
        _close_all(self._fds)
        self._hub.request("release", lease=lease)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _header(self, position):
        return HEADERS + position % self.slots * self._header_stride

    def _check_expelled(self):
        if self._control.load(EXPELLED + 8 * self._place) == self._lease:
            raise ReaderExpelled(f"the writer of {self.name} found words in this reader's page that make no sense")

    def _wanted(self, condition, found):
        if not condition:
            self._check_expelled()
            raise ChannelCorrupt(f"channel {self.name}: {found}")


def main():
    """python3 cuda_ipc_channel.py NAME: prints a line for each message until the channel ends."""
    with cuda_ipc_client.connect(program="cuda_ipc_channel.py") as hub:
        with open_channel(hub, sys.argv[1], wait=True) as reader:
            for message in reader:
                what = f"{reader.dtype}{list(message.shape)}, meta {message.json or message.meta!r}"
                print(f"{message.sequence}: {what}, missed {message.missed}", flush=True)


if __name__ == "__main__":
    main()
