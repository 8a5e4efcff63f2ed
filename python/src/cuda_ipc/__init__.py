"""Shares GPU and host memory between processes: arrays by name, without a copy.

    import cuda_ipc

    with cuda_ipc.connect() as hub:
        frame = hub.put("frame", pixels)       # in one process
        frame = hub.open("frame").numpy()      # in another one: the very memory

It speaks docs/protocol.md with a hub that `cuda-ipc hub serve` or a Node program has started.
"""

from typing import TYPE_CHECKING

from ._dtypes import DTYPES as _DTYPES
from ._place import hub_socket_path
from ._version import VERSION as __version__
from .arrays import Array
from .channel_message import Message
from .channel_reader import ChannelReader
from .channel_slot import Slot
from .channel_writer import ChannelWriter
from .connecting import connect, connect_async
from .errors import CudaError, CudaIpcError, CudaIpcTimeout
from .hub import Hub
from .shared import Holder, ObjectInfo, SharedArray, SharedBundle
from .timelines import OwnedTimeline, Timeline

if TYPE_CHECKING:
    from ._service.client import ServiceClient
    from ._service.messages import ServiceMessage, ServiceRequest, SlotToFill
    from ._service.reply import Reply
    from ._service.worker import Service
    from .groups import Group
    from .ranks import Rank, rank_from_environment

#: The names of all element types.
dtypes: tuple[str, ...] = tuple(_DTYPES)

__all__ = [
    "Array",
    "ChannelReader",
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
    "Reply",
    "Service",
    "ServiceClient",
    "ServiceMessage",
    "ServiceRequest",
    "SharedArray",
    "SharedBundle",
    "Slot",
    "SlotToFill",
    "Timeline",
    "__version__",
    "connect",
    "connect_async",
    "dtypes",
    "hub_socket_path",
    "rank_from_environment",
]

#: What is imported at first use, and from where: most programs need none of it.
_LATER = {
    "Group": "groups",
    "Rank": "ranks",
    "rank_from_environment": "ranks",
    "Reply": "_service.reply",
    "Service": "_service.worker",
    "ServiceClient": "_service.client",
    "ServiceMessage": "_service.messages",
    "ServiceRequest": "_service.messages",
    "SlotToFill": "_service.messages",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)
