"""Each public call of the doors `cuda-ipc`, `/service` and `/peer` is in Python, or here is why not.

A new call or option in TypeScript fails this test until Python has it under the same name in
snake_case, or one of the tables below has an entry for it.
"""

from __future__ import annotations

import inspect
import re

from conftest import ROOT
from public_calls import public_calls, snake_case

import cuda_ipc

DOORS = ("index", "service", "peer")
REPORTS = ROOT / "api"

#: Classes with another name in Python.
CLASSES = {
    "DeviceArray": "Array",
    "HubTransfers": "Hub",
    "LoanedSlot": "Slot",
    "ReceivedSlot": "Message",
    "ReplySlot": "Reply",
    "SystemError": "CudaIpcError",
    "Timeline": "OwnedTimeline",
}

#: The calls that take the options of an interface.
CALLS = {
    "ArrayOptions": "Hub.create",
    "ChannelOptions": "Hub.create_channel",
    "CommitOptions": "Slot.commit",
    "ConnectOptions": "connect",
    "ConnectServiceOptions": "Hub.connect_service",
    "CreateBundleOptions": "Hub.create_bundle",
    "CreateOptions": "Hub.create",
    "CreateTimelineOptions": "Hub.create_timeline",
    "GroupOptions": "Group.join",
    "LoanOptions": "ChannelWriter.loan",
    "NamedTimelineOptions": "Hub.create_timeline",
    "OpenArrayOptions": "Hub.open",
    "OpenChannelOptions": "Hub.open_channel",
    "OpenOptions": "Hub.open",
    "OpenTimelineOptions": "Hub.open_timeline",
    "PlaceOptions": "Hub.open",
    "PutOptions": "Hub.put",
    "ReaderOptions": "Hub.open_channel",
    "ReleaseOptions": "Message.release",
    "RemoveOptions": "Hub.remove",
    "ReplaceOptions": "Hub.put",
    "RequestOptions": "ServiceClient.request",
    "ServeOptions": "Hub.serve",
    "TimelineWaitOptions": "Timeline.wait",
    "WaitOptions": "Hub.open",
}

#: What has another name in Python.
RENAMED = {
    "ChannelObserver.label": "ChannelObserver.name",
    "ChannelReader.label": "ChannelReader.name",
    "ChannelReader.open": "ChannelReader.closed",
    "ChannelWriter.label": "ChannelWriter.name",
    "ChannelWriter.open": "ChannelWriter.closed",
    "DeviceArray.byteLength": "Array.nbytes",
    "DeviceArray.read": "Array.tolist",
    "DeviceArray.view": "Array.numpy",
    "LoanedSlot.bytes": "Slot.data",
    "LoanedSlot.open": "Slot.closed",
    "ReceivedSlot.bytes": "Message.data",
    "ReceivedSlot.open": "Message.closed",
    "ServiceMessage.bytes": "ServiceMessage.data",
    "ServiceRequest.deadlineMicros": "ServiceRequest.deadline",
    "ServiceRequest.signal": "ServiceRequest.given_up",
    "SharedBundle.array": "SharedBundle.__getitem__",
    "SharedBundle.has": "SharedBundle.__contains__",
    "SharedBundle.names": "SharedBundle.keys",
    "SharedBundle.size": "SharedBundle.__len__",
    "SlotToFill.bytes": "SlotToFill.data",
    "CudaError.statusName": "CudaError.name",
    "connectService": "Hub.connect_service",
    "serve": "Hub.serve",
}

#: Parameters with another name in Python. Times are in seconds there, and have no unit in the name.
RENAMED_OPTIONS = {
    "CreateOptions.lifetime": "pinned",
    "ReaderOptions.from": "start",
    "RemoveOptions.unheldSinceMs": "unheld_since_ms",
}

_OPERATIONS = "frameworks compute on a view: torch, CuPy, Numba, JAX or NumPy"
_DEVICES = "streams, events and facts of a device are those of the framework"
_MACHINES = "other machines are reached by Node's clients alone, so far"
_DOCUMENTS = "sharing without a hub is between Node processes; Python has groups and interop"
_FILES = "`cuda-ipc put` and `save`, or the framework's own loader"
_MESSAGE = "the message says it; `code` and `__cause__` are for programs"
_NO_ABORT = "a thread is interrupted by a signal, and a task of asyncio is cancelled"

_ON_ELEMENTS = [
    *("affine", "allocate", "buffer", "checksum", "clear", "close", "compare", "copyFrom"),
    *("elementCount", "expectDType", "fill", "iota", "isContiguous", "layout", "reshape"),
    *("slice", "statistics", "transpose"),
]

#: What Python does not have, and why.
MISSING = {
    "ArrayOptions.mechanism": "VMM memory alone: a framework's view may outlive memory of a pool",
    "ChannelOptions.byteLength": 'give a dtype and a shape: "uint8" and the bytes',
    "ChannelReader.device": "`message.array.device` says it",
    "ChannelReader.metaBytesMax": "MESSAGE_TOO_LARGE names it",
    "ChannelReader.stream": "the caller has given it",
    "ChannelReader.toWeb": "web streams are Node's; `async for` takes their place",
    "ChannelWriter.device": "`slot.array.device` says it",
    "ChannelWriter.toWeb": "web streams are Node's; use `send_async`",
    "CreateOptions.pool": "VMM memory alone: a framework's view may outlive memory of a pool",
    "CudaError.call": _MESSAGE,
    "CudaError.status": _MESSAGE,
    "Hub.device": _DEVICES,
    "Hub.openAny": "`hub.inspect(name)` says the kind",
    "Hub.ref": "threads of the package are daemons: they keep no process alive",
    "Hub.unref": "threads of the package are daemons: they keep no process alive",
    "Hub.restart": "`cuda-ipc hub restart`",
    "HubTransfers.load": _FILES,
    "HubTransfers.save": _FILES,
    "NamedTimelineOptions.device": "a timeline is of no device: `prepare` registers it with one",
    "OpenArrayOptions.dtype": "for types of TypeScript; `array.dtype` says it",
    "OpenChannelOptions.device": "the channel's own device is used",
    "OpenChannelOptions.dtype": "for types of TypeScript; `reader.dtype` says it",
    "OpenChannelOptions.machine": _MACHINES,
    "OpenOptions.from": _MACHINES,
    "PlaceOptions.device": "an object is opened on its own device",
    "PlaceOptions.whenUnreachable": "a GPU that cannot be reached is an error; nothing is copied",
    "ReplySlot.close": "the package closes it when the handler returns",
    "ServiceRequest.giveUp": "for the package itself",
    "SharedArray.expectDType": "for types of TypeScript",
    "SharedArray.object": "`hub.inspect(name)` says it",
    "SharedArray.placement": "an object is opened on its own device",
    "SharedArray.replicaOf": _MACHINES,
    "SharedBundle.buffer": "each array of it is a view",
    "SharedBundle.object": "`hub.inspect(name)` says it",
    "SharedBundle.placement": "an object is opened on its own device",
    "SharedBundle.replicaOf": _MACHINES,
    "SystemError.call": _MESSAGE,
    "SystemError.errno": _MESSAGE,
    "SystemError.errnoName": _MESSAGE,
    "Timeline.exportFd": "frameworks of Python import no timelines",
    "Timeline.exportWritableFd": "frameworks of Python import no timelines",
    "Timeline.place": "frameworks of Python import no timelines",
    "WaitOptions.signal": _NO_ABORT,
    "isErrorCode": "compare `error.code`",
    "offer": _DOCUMENTS,
    "openShared": _DOCUMENTS,
    "readHandleFile": _DOCUMENTS,
    "receiveOffer": _DOCUMENTS,
    "share": "`Hub.share` is another call: it gives a framework's array a name",
    "writeHandleFile": _DOCUMENTS,
    **{f"DeviceArray.{name}": _OPERATIONS for name in _ON_ELEMENTS},
}

#: Classes and options of which Python has nothing.
MISSING_CLASSES = {
    "Device": _DEVICES,
    "FileOptions": _FILES,
    "LoadOptions": _FILES,
    "Offer": _DOCUMENTS,
    "OpenSharedOptions": _DOCUMENTS,
    "ReadHandleFileOptions": _DOCUMENTS,
    "ReadRawHandleFileOptions": _DOCUMENTS,
    "ReceivedOffer": _DOCUMENTS,
    "SaveOptions": _FILES,
    "Shared": _DOCUMENTS,
    "ShareOptions": _DOCUMENTS,
    "SharingOptions": "a mapping with these keys: `sharing={'with': 'group'}`",
    "WriteHandleFileOptions": _DOCUMENTS,
}


FOUND = public_calls(REPORTS, DOORS)


def resolved(path: str) -> object:
    found: object = cuda_ipc
    for part in path.split("."):
        found = getattr(found, part)
    return found


def has_member(owner: str, name: str) -> bool:
    """A method, a property, or an attribute that the constructor sets."""
    kind = getattr(cuda_ipc, owner, None)
    if not isinstance(kind, type):
        return False
    sets = re.compile(rf"self\.{name}(: [^=]+)? = ")
    return hasattr(kind, name) or any(
        sets.search(inspect.getsource(base))
        for base in kind.__mro__
        if base.__module__.startswith("cuda_ipc")
    )


def has_parameter(call: str, name: str) -> bool:
    return name in inspect.signature(resolved(call)).parameters  # type: ignore[arg-type]


def why_not_found(call: str) -> str | None:
    """None if Python has the call under its usual name."""
    owner, _, name = call.rpartition(".")
    usual = snake_case(name)
    if owner == "":
        is_there = hasattr(cuda_ipc, usual)
    elif owner.endswith("Options"):
        usual = RENAMED_OPTIONS.get(call, usual.removesuffix("_ms"))
        is_there = owner in CALLS and has_parameter(CALLS[owner], usual)
    else:
        is_there = has_member(CLASSES.get(owner, owner), usual)
    return None if is_there else f"{call} of TypeScript is not in Python as {usual}"


def is_excused(call: str) -> bool:
    return call in RENAMED or call in MISSING or call.rpartition(".")[0] in MISSING_CLASSES


def test_python_has_each_public_call_of_node_or_a_reason_is_given():
    assert len(FOUND) > 200, "the reports are read"
    assert [why for call in FOUND if (why := why_not_found(call)) and not is_excused(call)] == []


def test_what_has_another_name_in_python_is_there():
    for call in RENAMED.values():
        owner, _, name = call.rpartition(".")
        assert has_member(owner, name), call


def test_the_tables_name_no_call_that_node_has_no_more_or_that_python_has_by_now():
    assert sorted({*RENAMED, *MISSING, *RENAMED_OPTIONS} - set(FOUND)) == []
    assert sorted(call for call in {*RENAMED, *MISSING} if why_not_found(call) is None) == []
    owners = {call.rpartition(".")[0] for call in FOUND}
    assert sorted({*MISSING_CLASSES, *CLASSES, *CALLS} - owners) == []
    has_none = [owner for owner in MISSING_CLASSES if owner in CALLS or owner in CLASSES]
    assert [*has_none, *(owner for owner in MISSING_CLASSES if hasattr(cuda_ipc, owner))] == []
    assert all(len(why) > 10 for why in [*MISSING.values(), *MISSING_CLASSES.values()])


def test_a_new_call_and_a_new_option_would_be_found(tmp_path):
    text = (REPORTS / "service.api.md").read_text()
    for line in ("    get workers(): number;", "    readonly concurrency?: number | undefined;"):
        assert line in text
        new = line.replace("workers", "newCall").replace("concurrency", "newOption")
        text = text.replace(line, f"{line}\n{new}", 1)
    text += "export function newFunction(name: string): void;\n"
    (tmp_path / "service.api.md").write_text(text)
    new = [
        call
        for call in public_calls(tmp_path, ("service",))
        if why_not_found(call) and not is_excused(call)
    ]
    assert new == ["ServeOptions.newOption", "ServiceClient.newCall", "newFunction"]
