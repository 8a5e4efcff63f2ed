"""Share arrays by name with other processes through the cuda-ipc hub, in plain Python, uncopied.

    with connect(program="reader.py") as hub, hub.open("frame", wait=True, timeout=10) as frame:
        print(frame.array.shape, frame.array.tobytes())

It follows docs/protocol.md and needs only Linux and Python 3.9 or newer. `Array.numpy()` needs
NumPy. GPU memory needs libcuda. Use each client in one thread.
"""

import array
import contextlib
import ctypes
import fcntl
import itertools
import json
import math
import mmap
import os
import re
import socket
import stat
import struct
import time
import uuid
import weakref

PROTOCOL = 1
MAX_PACKET = 65536
MAX_INTEGER = 2**53 - 1
MAX_FDS = 253  # in one packet; a channel's reader gets 5
PAGE = 4096
ALIGNMENT = 256  # of the arrays in a bundle that this file creates

# dtype: (bytes, struct codes of one element, NumPy type string). None if there is no such type.
DTYPES = {
    "bool": (1, "?", "|b1"), "uint8": (1, "B", "|u1"), "int8": (1, "b", "|i1"),
    "uint16": (2, "H", "<u2"), "int16": (2, "h", "<i2"), "uint32": (4, "I", "<u4"), "int32": (4, "i", "<i4"),
    "uint64": (8, "Q", "<u8"), "int64": (8, "q", "<i8"),
    "float16": (2, "e", "<f2"), "float32": (4, "f", "<f4"), "float64": (8, "d", "<f8"),
    "complex64": (8, "ff", "<c8"), "complex128": (16, "dd", "<c16"),
    "bfloat16": (2, None, None), "float8_e4m3fn": (1, None, None), "float8_e5m2": (1, None, None),
}  # fmt: skip


class HubError(Exception):
    """The hub refused a request. Compare `code` in programs."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


class HubNotRunning(ConnectionError):
    """No hub listens on the socket. Start one with `cuda-ipc hub serve`."""


class InvalidDescriptor(ValueError):
    """A descriptor or an index has invalid content."""


class NotOpenedHere(TypeError):
    """A valid object of a kind that this client does not open: pool memory or a timeline."""


# ---------------------------------------------------------------- arrays and checks


def _check(condition, message):
    if not condition:
        raise InvalidDescriptor(message)


def _integer(value, low, what):
    _check(type(value) is int and low <= value <= MAX_INTEGER, f"{what} is {value!r}")
    return value


def packed_strides(shape):
    """The strides, in elements, of a contiguous array in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


class Array:
    """A view of shared memory. The mapping stays while this or its `numpy()` array is in use."""

    def __init__(self, memory, spec, byte_length):
        _check(isinstance(spec, dict) and spec.get("dtype") in DTYPES, f"no array that is known here: {spec!r}")
        shape, strides = spec.get("shape"), spec.get("strides")
        _check(isinstance(shape, list) and len(shape) <= 32, f"shape is {shape!r}")
        _check(isinstance(strides, list) and len(strides) == len(shape), f"strides are {strides!r} for shape {shape!r}")
        self.memory, self.dtype = memory, spec["dtype"]
        self.itemsize, self._code, self._typestr = DTYPES[self.dtype]
        self.shape = tuple(_integer(length, 0, "a length") for length in shape)
        self.strides = tuple(_integer(stride, -MAX_INTEGER, "a stride") for stride in strides)
        self.offset = _integer(spec.get("byteOffset"), 0, "byteOffset")
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.itemsize
        aligned = self.itemsize // 2 if self.dtype.startswith("complex") else self.itemsize
        _check(self.offset % aligned == 0, f"byteOffset {self.offset} is not a multiple of {aligned}")
        reach = [(length - 1) * stride for length, stride in zip(self.shape, self.strides)] if self.size else [0]
        self._low = self.offset + self.itemsize * sum(step for step in reach if step < 0)
        self._high = self.offset + self.itemsize * (sum(step for step in reach if step > 0) + (self.size > 0))
        _check(0 <= self._low and self._high <= byte_length, "the array leaves its memory")

    @property
    def contiguous(self):
        axes = zip(self.shape, self.strides, packed_strides(self.shape))
        return self.size == 0 or all(length == 1 or stride == packed for length, stride, packed in axes)

    def _positions(self):
        """The byte offset of each element, in row-major order."""
        for index in itertools.product(*map(range, self.shape)):
            yield self.offset + self.itemsize * sum(i * stride for i, stride in zip(index, self.strides))

    def tobytes(self):
        """A copy of the elements, in row-major order."""
        block = self.memory.read(self._low, self._high - self._low)
        if self.contiguous:
            return block
        return b"".join(block[at - self._low : at - self._low + self.itemsize] for at in self._positions())

    def write(self, data):
        """Copy bytes into the array, in row-major order."""
        data = memoryview(data).cast("B")
        if len(data) != self.nbytes:
            raise ValueError(f"{len(data)} bytes for an array of {self.nbytes}")
        if self.contiguous:
            self.memory.write(self.offset, data)
        else:
            for n, at in enumerate(self._positions()):
                self.memory.write(at, data[n * self.itemsize : (n + 1) * self.itemsize])

    def values(self):
        """The elements as a flat list, in row-major order."""
        if self._code is None:
            raise TypeError(f"Python has no {self.dtype}; use tobytes()")
        rows = struct.iter_unpack("<" + self._code, self.tobytes())
        return [complex(*row) if len(row) == 2 else row[0] for row in rows]

    def numpy(self):
        """A NumPy array on the shared memory itself."""
        import numpy

        if self._typestr is None or self.memory.pointer is not None:
            raise TypeError("NumPy views host memory of a dtype that NumPy has; use tobytes()")
        strides = [stride * self.itemsize for stride in self.strides]
        return numpy.ndarray(self.shape, self._typestr, self.memory.buffer, self.offset, strides)

    @property
    def __cuda_array_interface__(self):
        """The interface that torch.as_tensor and cupy.asarray use."""
        if self.memory.pointer is None or self._typestr is None:
            raise AttributeError("__cuda_array_interface__ is for GPU memory of a dtype that NumPy has")
        return {
            "version": 3,
            "shape": self.shape,
            "strides": tuple(stride * self.itemsize for stride in self.strides),
            "typestr": self._typestr,
            "data": (self.memory.pointer + self.offset if self.size else 0, self.memory.readonly),
        }


# ---------------------------------------------------------------- memory


class HostMemory:
    """A mapped memory file."""

    pointer = None

    def __init__(self, fd, length, readonly):
        _check(stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size >= length, "the memory file is too short")
        self.readonly = readonly
        protection = mmap.PROT_READ if readonly else mmap.PROT_READ | mmap.PROT_WRITE
        self.buffer = mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=protection)

    def read(self, start, length):
        return self.buffer[start : start + length]

    def write(self, start, data):
        self.buffer[start : start + len(data)] = data


def _cuda(function, *arguments):
    """Call libcuda. An int becomes size_t, which is as wide as CUdeviceptr and 64-bit flags."""
    arguments = [ctypes.c_size_t(value) if isinstance(value, int) else value for value in arguments]
    code = getattr(ctypes.CDLL("libcuda.so.1"), function)(*arguments)
    if code != 0:
        raise OSError(f"{function} failed with CUDA error {code}")


class CudaMemory:
    """GPU memory of another process, mapped through libcuda. Unmapped when it is no longer used."""

    def __init__(self, fd, length, readonly, device_uuid):
        self.readonly, self._context = readonly, ctypes.c_void_p()
        handle, pointer = ctypes.c_uint64(), ctypes.c_uint64()
        with contextlib.ExitStack() as undo:
            device = self._find(device_uuid)
            _cuda("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
            undo.callback(_cuda, "cuDevicePrimaryCtxRelease_v2", device)
            file_descriptor = ctypes.c_int(1)
            _cuda("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), file_descriptor)
            with contextlib.ExitStack() as after:
                after.callback(_cuda, "cuMemRelease", handle)
                _cuda("cuMemAddressReserve", ctypes.byref(pointer), length, 0, 0, 0)
                undo.callback(_cuda, "cuMemAddressFree", pointer, length)
                _cuda("cuMemMap", pointer, length, 0, handle, 0)
                undo.callback(_cuda, "cuMemUnmap", pointer, length)
            access = (ctypes.c_int * 3)(1, device.value, 1 if readonly else 3)  # a device, which, read or read-write
            _cuda("cuMemSetAccess", pointer, length, access, 1)
            self.pointer = pointer.value
            weakref.finalize(self, undo.pop_all().close)

    @staticmethod
    def _find(wanted):
        count, device, found = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        _cuda("cuInit", ctypes.c_uint(0))
        _cuda("cuDeviceGetCount", ctypes.byref(count))
        for ordinal in range(count.value):
            _cuda("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
            _cuda("cuDeviceGetUuid_v2", found, device)
            if wanted.split("-", 1)[1].lower() == str(uuid.UUID(bytes=bytes(found))):
                return device
        raise OSError(f"{wanted} is not a device of this process")

    @contextlib.contextmanager
    def _current(self):
        _cuda("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            _cuda("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def read(self, start, length):
        copy = (ctypes.c_char * length)()
        with self._current():
            _cuda("cuMemcpyDtoH_v2", copy, self.pointer + start, length)
        return copy.raw

    def write(self, start, data):
        if self.readonly:
            raise TypeError("this memory was opened for reading")
        with self._current():
            _cuda("cuMemcpyHtoD_v2", self.pointer + start, ctypes.c_char_p(bytes(data)), len(data))


# ---------------------------------------------------------------- descriptors


def _parse(descriptor, fds, readonly):
    """Check a descriptor and map its memory. Returns arrays by name (None if single), metadata."""
    _check(isinstance(descriptor, dict) and descriptor.get("version") == 1, "a descriptor of another version")
    whole = _integer(descriptor.get("allocationByteLength"), 1, "allocationByteLength")
    used = _integer(descriptor.get("byteLength"), 0, "byteLength")
    _check(used <= whole, f"byteLength {used} is more than allocationByteLength {whole}")
    device, content = descriptor.get("device"), descriptor.get("content")
    _check(isinstance(device, dict) and isinstance(content, dict), "device and content are objects")
    kind = content.get("kind")
    if kind == "timeline":
        raise NotOpenedHere("it is a timeline; this client opens arrays and bundles (docs/protocol.md, Timelines)")
    where = (device.get("kind"), descriptor.get("mechanism"))
    if where[1] == "pool":
        raise NotOpenedHere("it is memory of a pool; this client opens memory files and VMM memory")
    _check(where in (("host", "memfd"), ("cuda", "vmm")), f"device and mechanism are {where}")
    if where[0] == "cuda":
        text = device.get("uuid")
        _check(isinstance(text, str) and re.fullmatch(r"(GPU|MIG)-\w{8}(-\w{4}){3}-\w{12}", text), f"uuid is {text!r}")

    _check(kind in ("array", "bundle"), f"content is of kind {kind!r}")
    _check(len(fds) == (2 if kind == "bundle" else 1), f"{len(fds)} descriptors came for content of kind {kind}")
    index = _read_index(content, fds[1]) if kind == "bundle" else {"arrays": [content.get("array")]}
    memory = HostMemory(fds[0], whole, readonly) if where[0] == "host" else CudaMemory(fds[0], whole, readonly, text)
    views = [Array(memory, spec, used) for spec in index["arrays"]]
    arrays = {spec.get("name"): view for spec, view in zip(index["arrays"], views)}
    _check(len(arrays) == len(index["arrays"]), "a name stands twice in the index")
    return arrays, index.get("metadata", {})


def _read_index(content, fd):
    length = _integer(content.get("indexByteLength"), 1, "indexByteLength")
    _check(os.fstat(fd).st_size == length, "the index has another length than claimed")
    _check(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE, "the index is not sealed against writing")
    with mmap.mmap(fd, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as text:
        index = json.loads(text[:].decode())
    _check(isinstance(index, dict) and index.get("version") == 1, "an index of another version")
    arrays = index.get("arrays")
    _check(isinstance(arrays, list) and len(arrays) == content.get("arrayCount"), "the index has not arrayCount arrays")
    _check(all(isinstance(a, dict) and isinstance(a.get("name"), str) for a in arrays), "an array has no name")
    return index


def _memory_file(length, content=b"", seals=0):
    fd = os.memfd_create("cuda-ipc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, length)
        while content:
            content = content[os.write(fd, content) :]
        # F_SEAL_SEAL: without it, any writer could seal the file against writing for all processes.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL | seals)
    except BaseException:
        os.close(fd)
        raise
    return fd


# ---------------------------------------------------------------- the hub


class Shared:
    """A lease on a shared object. It has one `array`, or `arrays` by name. Ends with its `with`."""

    def __init__(self, hub, name, result, descriptor, arrays, metadata):
        self._hub, self.name, self.descriptor = hub, name, descriptor
        self.object, self.lease = result["object"], result["lease"]
        self.arrays, self.metadata = arrays, metadata

    @property
    def array(self):
        return self.arrays[None]

    def publish(self):
        """Let others open it. They see what was written before."""
        self._hub.request("publish", object=self.object)

    def release(self):
        """End the lease. Arrays in use stay mapped."""
        if self.lease is not None:
            lease, self.lease, self.arrays = self.lease, None, {}
            self._hub.request("release", lease=lease)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def socket_path():
    """The path of the hub's socket for this user."""
    if os.environ.get("CUDA_IPC_SOCKET"):
        return os.environ["CUDA_IPC_SOCKET"]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.exists(runtime):
        return os.path.join(runtime, "cuda-ipc", "hub.sock")
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"cuda-ipc-{os.geteuid()}", "hub.sock")


def connect(path=None, program="python"):
    """Connect to this user's hub."""
    path = path or socket_path()
    if len(os.fsencode(path)) > 107:
        raise ValueError(f"the path of a socket has at most 107 bytes: {path}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        folder = os.stat(os.path.dirname(path) or ".")
        if folder.st_uid != os.geteuid() or folder.st_mode & 0o077:
            raise PermissionError(f"the folder of {path} must be yours alone (mode 0700)")
        sock.connect(path)
        _, peer, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if peer != os.geteuid():
            raise PermissionError(f"the hub at {path} belongs to user {peer}")
        return Hub(sock, program)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        sock.close()
        raise HubNotRunning(f"no hub at {path}; start one with: cuda-ipc hub serve") from error
    except BaseException:
        sock.close()
        raise


class Hub:
    """A session with the hub. The end of its `with` releases all that it holds."""

    def __init__(self, sock, program):
        self._socket, self._ids, self._replies = sock, itertools.count(1), {}
        self.info = self.request("hello", client={"version": "0.1.0", "program": program[:128]})

    def request(self, op, **fields):
        """Send a request whose reply has no descriptors. Returns its result."""
        return self._receive(self._send(op, fields))[0]

    def open(self, name, access="read", wait=False, timeout=None):
        """Open a published object. With `wait`, wait up to `timeout` seconds for it."""
        request = self._send("open", {"name": name, "access": access, "wait": wait})
        try:
            result, fds = self._receive(request, timeout)
        except (TimeoutError, KeyboardInterrupt):
            self._give_up(request)
            raise
        descriptor = result["descriptor"]
        try:
            return Shared(self, name, result, descriptor, *_parse(descriptor, fds, access == "read"))
        except BaseException:
            self.request("release", lease=result["lease"])
            raise
        finally:
            _close_all(fds)

    def create(self, name, dtype, shape, pinned=False):
        """Create host memory for one array. Write to its `array`, then call publish()."""
        layout, used = _place([(None, dtype, shape)])
        return self._create(name, used, {"kind": "array", "array": layout[0]}, [], pinned)

    def create_bundle(self, name, arrays, metadata=None, pinned=False):
        """Create host memory for several arrays, given as {name: (dtype, shape)}."""
        layout, used = _place([(array_name, *rest) for array_name, rest in arrays.items()])
        index = json.dumps({"version": 1, "metadata": metadata or {}, "arrays": layout}).encode()
        content = {"kind": "bundle", "arrayCount": len(layout), "indexByteLength": len(index)}
        return self._create(name, used, content, [_memory_file(len(index), index, fcntl.F_SEAL_WRITE)], pinned)

    def _create(self, name, used, content, fds, pinned):
        whole = max(1, -(-used // PAGE)) * PAGE
        descriptor = {"version": 1, "device": {"kind": "host"}, "mechanism": "memfd"}
        descriptor.update(byteLength=used, allocationByteLength=whole, content=content)
        try:
            fds.insert(0, _memory_file(whole))
            parsed = _parse(descriptor, fds, readonly=False)
            fields = {"name": name, "lifetime": "pinned" if pinned else "held", "descriptor": descriptor}
            result, _ = self._receive(self._send("create", fields, fds))
            return Shared(self, name, result, descriptor, *parsed)
        finally:
            _close_all(fds)

    def list(self):
        """Yield all objects, ordered by name."""
        page = self.request("list")
        yield from page["objects"]
        while page["next"] is not None:
            page = self.request("list", after=page["next"])
            yield from page["objects"]

    def inspect(self, name):
        return self.request("inspect", name=name)

    def remove(self, name):
        """Remove a name. Processes that hold the memory keep it."""
        self.request("remove", name=name)

    def status(self):
        return self.request("status")

    def stop(self, force=False):
        """End the hub. Without `force`, only if nothing uses it."""
        self.request("stop", force=force)
        self._socket.close()

    def bye(self):
        """Release everything and disconnect."""
        if self._socket.fileno() >= 0:
            with self._socket:
                self.request("bye")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bye()

    def _send(self, op, fields, fds=()):
        request = next(self._ids)
        packet = json.dumps({"v": PROTOCOL, "id": request, "op": op, **fields}).encode()
        if len(packet) > MAX_PACKET:
            raise ValueError(f"a request of {len(packet)} bytes is over the limit of {MAX_PACKET}")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with contextlib.suppress(BrokenPipeError):  # its last replies may still be unread
            self._socket.sendmsg([packet], rights)
        return request

    def _receive(self, request, timeout=None):
        """The result and descriptors of a request's reply. Keeps replies to other requests."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while request not in self._replies:
            reply, fds, lost = self._packet(None if deadline is None else max(0.0, deadline - time.monotonic()))
            self._replies[reply["id"] or request] = (reply, fds, lost)  # id 0: unreadable
        reply, fds, lost = self._replies.pop(request)
        if lost:
            _close_all(fds)
            if reply["ok"] and "lease" in reply["result"]:
                self.request("release", lease=reply["result"]["lease"])
            raise OSError("descriptors were lost on the way; this process may have too many open")
        if not reply["ok"]:
            raise HubError(reply["error"]["code"], reply["error"]["message"])
        return reply["result"], fds

    def _packet(self, timeout):
        self._socket.settimeout(None if timeout is None else max(timeout, 1e-6))
        arguments = (MAX_PACKET, socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC)
        try:
            try:
                packet, control, flags, _ = self._socket.recvmsg(*arguments)
            except ConnectionResetError:  # reported once, before the hub's last packets
                packet, control, flags, _ = self._socket.recvmsg(*arguments)
        except socket.timeout:
            raise TimeoutError("the hub has not answered in time") from None
        finally:
            self._socket.settimeout(None)
        fds = array.array("i")
        for level, kind, data in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if not packet:
            raise ConnectionError("the hub has hung up")
        return json.loads(packet), list(fds), bool(flags & socket.MSG_CTRUNC)

    def _give_up(self, request):
        self.request("cancel", request=request)
        try:
            result, fds = self._receive(request)
        except HubError:
            return  # ABORTED, as requested
        _close_all(fds)
        self.request("release", lease=result["lease"])


def _place(arrays):
    """Lay out arrays one after the other. Returns the layout and the bytes used."""
    layout, end = [], 0
    for name, dtype, shape in arrays:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        spec = {"dtype": dtype, "shape": list(shape), "strides": packed_strides(shape), "byteOffset": start}
        layout.append(spec if name is None else {"name": name, **spec})
        end = start + math.prod(shape) * DTYPES[dtype][0]
    return layout, end


def _close_all(fds):
    for fd in fds:
        os.close(fd)
