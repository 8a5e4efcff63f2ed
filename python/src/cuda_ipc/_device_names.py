"""Names of devices, as users give them: "auto", "host", "cuda", "cuda:1", "1", 1, torch.device."""

from __future__ import annotations

import os
import re
import sys
from typing import Protocol

from .errors import CudaIpcError


class TorchDevice(Protocol):
    """A `torch.device`."""

    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int | None: ...


Device = str | int | TorchDevice

_GPU = re.compile(r"cuda|(?:cuda:)?([0-9]{1,4})")
_OTHER_NAMES = {"cpu": "host", "gpu": "cuda:0", "nvidia": "cuda:0"}
_VARIABLE = "CUDA_IPC_DEVICE"


def checked_device(device: Device, what: str = "the device") -> str:
    """As "auto", "host" or "cuda:N". Raises INVALID_DEVICE, TypeError."""
    name = _named(device)
    if name in ("auto", "host"):
        return name
    found = _GPU.fullmatch(name)
    if found is not None:
        return f"cuda:{int(found[1] or 0)}"
    from ._keywords import did_you_mean  # of errors alone

    other = _OTHER_NAMES.get(name.lower())
    meant = f' Did you mean "{other}"?' if other else did_you_mean(name, ("host", "auto", "cuda:0"))
    shown = repr(device) if isinstance(device, (str, int)) else str(device)
    raise CudaIpcError(
        "INVALID_DEVICE",
        f'Cannot use {what} {shown}: wanted "host", "auto", or "cuda:N" or "N" with the number of '
        f"a GPU{'.' if meant else ''}{meant}",
    )


def default_device(device: Device | None) -> str | None:
    """The device for calls that name none, checked. None if neither this nor a variable does."""
    if device is not None:
        return checked_device(device)
    from_environment = os.environ.get(_VARIABLE)
    return checked_device(from_environment, _VARIABLE) if from_environment else None


def device_name(device: Device | None, default: str | None = None) -> str:
    """As "host" or "cuda:N". The last default is the host."""
    # WHY first: it is what nearly all calls name.
    if device == "host":
        return "host"
    name = default if device is None else checked_device(device)
    if name == "auto":
        return "cuda:0" if _has_gpu() else "host"
    return name or "host"


def gpu_ordinal(device: Device | None) -> int:
    """The number of a GPU, for handles of CUDA. Without a device, the variable may name it."""
    name = default_device(device)
    if name == "host" and device is not None:
        raise CudaIpcError(
            "INVALID_DEVICE", f"Cannot use the device {device!r}: handles of CUDA are for GPUs"
        )
    return int(name[len("cuda:") :]) if name is not None and name.startswith("cuda:") else 0


def _named(device: Device) -> str:
    if isinstance(device, str):
        return device
    if isinstance(device, int) and not isinstance(device, bool):
        return str(device)
    kind, index = getattr(device, "type", None), getattr(device, "index", None)
    if not isinstance(kind, str):
        raise TypeError(
            'device must be a name such as "host" or "cuda:0", the number of a GPU or a '
            f"torch.device, not {device!r}"
        )
    if kind == "cpu":
        return "host"
    if kind != "cuda":
        return str(device)
    if index is None:
        cuda = sys.modules["torch"].cuda if "torch" in sys.modules else None
        index = cuda.current_device() if cuda is not None and cuda.is_available() else 0
    return f"cuda:{index}"


def _has_gpu() -> bool:
    from ._cuda import context_at

    try:
        context_at(0)
    except CudaIpcError as missing:
        # Only these two codes mean that there is no GPU. A broken or too old driver is reported.
        if missing.code not in ("DRIVER_NOT_FOUND", "DEVICE_NOT_FOUND"):
            raise
        return False
    return True
