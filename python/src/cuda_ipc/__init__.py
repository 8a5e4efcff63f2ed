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
from .channel_reader import ChannelReader, Message
from .channel_writer import ChannelWriter, Slot
from .errors import CudaError, CudaIpcError, CudaIpcTimeout
from .hub import Hub, connect, connect_async
from .shared import Holder, ObjectInfo, SharedArray, SharedBundle
from .timelines import OwnedTimeline, Timeline

#: The names of all element types.
dtypes: tuple[str, ...] = tuple(_DTYPES)

if TYPE_CHECKING:
    from . import interop, jax, numpy, torch
    from ._sharing import SharedTensor

#: Loaded at first use, because most programs need few of them.
_LATER = {"SharedTensor": "._sharing"}
_MODULES = ("interop", "jax", "numpy", "torch")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Array",
    "ChannelReader",
    "ChannelWriter",
    "CudaError",
    "CudaIpcError",
    "CudaIpcTimeout",
    "Holder",
    "Hub",
    "Message",
    "ObjectInfo",
    "OwnedTimeline",
    "SharedArray",
    "SharedBundle",
    "SharedTensor",
    "Slot",
    "Timeline",
    "__version__",
    "connect",
    "connect_async",
    "dtypes",
    "hub_socket_path",
    "interop",
    "jax",
    "numpy",
    "torch",
]
