"""Shares GPU and host memory between processes: arrays by name, without a copy.

    import cuda_ipc

    with cuda_ipc.connect() as hub:
        frame = hub.put("frame", pixels)       # in one process
        frame = hub.open("frame").numpy()      # in another one: the very memory

It speaks docs/protocol.md with a hub, which `connect` starts if none runs.
"""

from ._version import VERSION as __version__

# WHY not typing's: to load that module takes longer than all of this one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import interop, jax, numpy, torch
    from ._choices import Sharing
    from ._dtypes import dtypes
    from ._hub_socket import hub_socket_path
    from ._service.client import ServiceClient
    from ._service.messages import ServiceMessage, ServiceRequest, SlotToFill
    from ._service.reply import Reply
    from ._service.worker import Service
    from ._sharing import SharedTensor
    from .arrays import Array
    from .channel_message import Message
    from .channel_observer import ChannelObserver, ChannelStatistics, ReaderStatistics
    from .channel_reader import ChannelReader
    from .channel_slot import Slot
    from .channel_writer import ChannelWriter
    from .connecting import connect, connect_async
    from .errors import CudaError, CudaIpcError, CudaIpcTimeout
    from .groups import Group
    from .hub import Hub
    from .ranks import Rank, rank_from_environment
    from .shared import Holder, ObjectInfo, SharedArray, SharedBundle
    from .timelines import OwnedTimeline, Timeline

#: What is imported at first use, and from where. So the import itself takes no time.
_MODULE_OF = {
    "Array": "arrays",
    "ChannelObserver": "channel_observer",
    "ChannelReader": "channel_reader",
    "ChannelStatistics": "channel_observer",
    "ChannelWriter": "channel_writer",
    "CudaError": "errors",
    "CudaIpcError": "errors",
    "CudaIpcTimeout": "errors",
    "Group": "groups",
    "Holder": "shared",
    "Hub": "hub",
    "Message": "channel_message",
    "ObjectInfo": "shared",
    "OwnedTimeline": "timelines",
    "Rank": "ranks",
    "ReaderStatistics": "channel_observer",
    "Reply": "_service.reply",
    "Service": "_service.worker",
    "ServiceClient": "_service.client",
    "ServiceMessage": "_service.messages",
    "ServiceRequest": "_service.messages",
    "SharedArray": "shared",
    "SharedBundle": "shared",
    "SharedTensor": "_sharing",
    "Sharing": "_choices",
    "Slot": "channel_slot",
    "SlotToFill": "_service.messages",
    "Timeline": "timelines",
    "connect": "connecting",
    "connect_async": "connecting",
    "dtypes": "_dtypes",
    "hub_socket_path": "_hub_socket",
    "rank_from_environment": "ranks",
}
_MODULES = ("interop", "jax", "numpy", "torch")

__all__ = [
    "Array",
    "ChannelObserver",
    "ChannelReader",
    "ChannelStatistics",
    "ChannelWriter",
    "CudaError",
    "CudaIpcError",
    "CudaIpcTimeout",
    "Group",
    "Holder",
    "Hub",
    "Message",
    "ObjectInfo",
    "OwnedTimeline",
    "Rank",
    "ReaderStatistics",
    "Reply",
    "Service",
    "ServiceClient",
    "ServiceMessage",
    "ServiceRequest",
    "SharedArray",
    "SharedBundle",
    "SharedTensor",
    "Sharing",
    "Slot",
    "SlotToFill",
    "Timeline",
    "__version__",
    "connect",
    "connect_async",
    "dtypes",
    "hub_socket_path",
    "interop",
    "jax",
    "numpy",
    "rank_from_environment",
    "torch",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if module is None:
        return import_module(f".{name}", __name__)
    found = globals()[name] = getattr(import_module(f".{module}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
