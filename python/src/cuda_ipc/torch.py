"""PyTorch: a model's weights by name without a copy, and tensors that are born in shared memory."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ._choices import Access
from ._device_names import Device, device_name
from ._keywords import explains_keywords
from ._waiting import async_form
from ._weights import REQUEST_S, Weights, load_views
from .arrays import Array, HandleState
from .errors import CudaIpcError

if TYPE_CHECKING:
    from .hub import Hub

__all__ = [
    "LoadedKeys",
    "Weights",
    "current_stream",
    "empty",
    "load_file",
    "load_file_async",
    "load_model",
    "load_model_async",
    "shareable",
    "view",
]


@explains_keywords
def load_file(
    name: str,
    *,
    hub: Hub | None = None,
    access: Access = "read",
    wait: bool = False,
    timeout: float | None = REQUEST_S,
) -> Weights:
    """The tensors of a bundle, by name, as `safetensors.torch.load_file` returns them.

    Nothing is copied: each tensor is a view of the shared memory, on the host or on the GPU where
    the bundle lies. PyTorch has no read-only tensors. If `access` is "read", what you write to one
    on the host stays in this process: its page is copied. On a GPU it fails the CUDA context. With
    "copy" it stays in this process on both, and on a GPU all tensors are copied. With "read-write"
    all processes see it.

    Without `hub` it connects for itself. With `wait` it waits until the bundle is published.
    Raises NOT_FOUND, which says who has created the name, and as `Hub.open_bundle`.
    """
    return load_views(
        name,
        _viewer(),
        hub=hub,
        access=access,
        wait=wait,
        timeout=timeout,
        retyped=_retyped,
        private=access == "read",
        viewing=_without_warnings,
    )


load_file_async = async_form(load_file)


def _retyped(tensor: Any, name: str) -> Any:
    dtype = getattr(_torch(), name, None)
    return tensor if dtype is None else tensor.view(dtype)


class LoadedKeys(NamedTuple):
    """Names that the model has and the bundle lacks, and the other way round."""

    missing: list[str]
    unexpected: list[str]


@explains_keywords
def load_model(
    module: Any,
    name: str,
    *,
    strict: bool = True,
    hub: Hub | None = None,
    access: Access = "read",
    wait: bool = False,
    timeout: float | None = REQUEST_S,
) -> LoadedKeys:
    """Makes the tensors of a bundle the parameters and buffers of `module`.

    Parameters are shared, without a copy. If `access` is "read", buffers (such as the running
    statistics of BatchNorm) are copies of this process, because a module in training writes to
    them. A `module` made under `torch.device("meta")` never has memory of its own. Parameters that
    share one tensor still share it afterwards. Parameters opened for reading do not require
    gradients, because an optimizer could not write to them. With `strict`, names that are missing
    or unexpected raise RuntimeError. The rest is as for `load_file`.
    """
    weights = load_file(name, hub=hub, access=access, wait=wait, timeout=timeout)
    tied = _tied_names(module)
    state: dict[str, Any] = dict(weights)
    if access == "read":
        for one, _ in module.named_buffers(remove_duplicate=False):
            if one in state:
                state[one] = state[one].clone()
    added = set()
    for names in tied:
        sources = [one for one in names if one in state]
        for one in names if sources else ():
            if one not in state:
                state[one] = state[sources[0]]
                added.add(one)
    missing, unexpected = module.load_state_dict(state, strict=False, assign=True)
    found = LoadedKeys(list(missing), [one for one in unexpected if one not in added])
    for names in tied:
        _tie(module, names)
    if access == "read":
        own = {id(tensor) for tensor in state.values()}
        addresses = {tensor.data_ptr() for tensor in state.values()}
        for parameter in module.parameters():
            if id(parameter) in own or parameter.data_ptr() in addresses:
                parameter.requires_grad_(False)
    if strict and (found.missing or found.unexpected):
        wrong = [
            f"{what} {', '.join(names)}"
            for what, names in (("missing:", found.missing), ("unexpected:", found.unexpected))
            if names
        ]
        raise RuntimeError(
            f"Cannot load {type(module).__name__} from {name!r}: {'; '.join(wrong)}. "
            "Pass strict=False to load the others."
        )
    return found


load_model_async = async_form(load_model)


def _tied_names(module: Any) -> list[list[str]]:
    """The names of each parameter that has more than one."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [same for same in names.values() if len(same) > 1]


def _tie(module: Any, names: Sequence[str]) -> None:
    parameter = module.get_parameter(names[0])
    for name in names[1:]:
        path, _, last = name.rpartition(".")
        setattr(module.get_submodule(path), last, parameter)


def view(array: Array) -> Any:
    """A tensor that is the very memory of an array of this package.

    As `torch.from_dlpack`, which on some versions warns for memory that was opened for reading.
    Raises CLOSED.
    """
    views = array._views
    if views is None:
        return _new_view(array)
    array._mapped("view")
    tensor = views.get("torch")
    if tensor is None:
        # WHY: what is made in inference mode could not be used outside of it.
        with _torch().inference_mode(False):
            tensor = views["torch"] = _new_view(array)
    # Another tensor of the same memory. To make the first one takes many times as long.
    return tensor.detach()


def _new_view(array: Array) -> Any:
    with _without_warnings():
        return _torch().from_dlpack(array)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Without those of some versions for memory that was opened for reading."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*non-writ.*", category=UserWarning)
        yield


def _viewer() -> Callable[[Array], Any]:
    """As `torch.from_dlpack`, for thousands of arrays of complete memory.

    It asks PyTorch once for its version and for no stream, which takes longer than the view itself.
    """
    from ._dlpack import VersionAsked, capsule_of

    dlpack, asked = _torch().utils.dlpack, VersionAsked()
    with contextlib.suppress(BufferError):
        dlpack.from_dlpack(asked)

    def viewed(array: Array) -> Any:
        capsule = capsule_of(array._mapped("view"), array._layout, asked.version)
        return dlpack.from_dlpack(capsule)

    return viewed


def current_stream(device: Device) -> Any:
    """PyTorch's current stream on a device such as "cuda:0"; None on "host".

    Devices are given as for `Hub.create`. It is what `stream` of channels accepts, so
    one program serves both kinds of devices.
    """
    name = device_name(device)
    return None if name == "host" else _torch().cuda.current_stream(name)


def empty(*size: int | Sequence[int], dtype: Any = None, device: Device | None = None) -> Any:
    """A tensor in memory of its own that `Hub.share` shares without a copy.

    As `torch.empty`: `size` is a shape, `dtype` a dtype of PyTorch, `device` "cpu" or "cuda:N" (by
    default PyTorch's default ones). On a GPU each tensor takes whole blocks of 2 MiB: use
    `shareable()` for many small ones. Host memory is zero. Raises OUT_OF_MEMORY, TOO_MANY_FDS.
    """
    torch = _torch()
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    where = torch.device(device) if device is not None else torch.get_default_device()
    from ._layout import packed_layout
    from ._shareable import new_memory

    lengths = tuple(int(length) for length in shape)  # type: ignore[arg-type]
    layout = packed_layout(torch.get_default_dtype() if dtype is None else dtype, lengths)
    if where.type not in ("cpu", "cuda"):
        raise CudaIpcError(
            "INVALID_DEVICE", f'Cannot make a tensor on {where}: wanted "cpu" or "cuda:N"'
        )
    ordinal = None
    if where.type == "cuda":
        ordinal = torch.cuda.current_device() if where.index is None else where.index
    memory = new_memory(layout.nbytes, ordinal)
    return view(Array(HandleState("empty"), memory, layout))


@contextlib.contextmanager
def shareable(device: Device | None = None) -> Iterator[None]:
    """Within it, tensors that PyTorch allocates on a GPU are born in memory that can be shared.

        with cuda_ipc.torch.shareable():
            cache = torch.zeros(1 << 30, device="cuda")
        hub.share("cache", cache)  # without a copy

    It concerns this thread, and one `device` (the current one by default). Memory goes back to the
    GPU as PyTorch's own does: after its last tensor, and `torch.cuda.empty_cache()`.

    PyTorch calls Python for each block that it allocates or frees. Its allocator is told to give
    its lock free meanwhile (`release_lock_on_cudamalloc`), but it keeps the lock while it frees. So
    let no other thread drop tensors of a GPU while one is in `empty_cache()`. And let no thread
    record a CUDA graph, or be in `torch.cuda.use_mem_pool`, when a block of `shareable` ends:
    PyTorch ends the process if a pool goes meanwhile.

    Raises UNSUPPORTED if this PyTorch has no GPU or lacks what is needed.
    """
    torch = _torch()
    if not torch.cuda.is_available():
        raise CudaIpcError(
            "UNSUPPORTED",
            "Cannot allocate on a GPU: PyTorch has none here. For host memory use "
            "cuda_ipc.torch.empty()",
        )
    make = getattr(torch._C, "_cuda_customAllocator", None)
    if make is None or not hasattr(torch.cuda, "MemPool"):
        lacks = "torch.cuda.MemPool" if make is not None else "torch._C._cuda_customAllocator"
        raise CudaIpcError(
            "UNSUPPORTED",
            f"Cannot let PyTorch {torch.__version__} allocate shared memory: it has no {lacks}. "
            "Use cuda_ipc.torch.empty()",
        )
    from . import _shareable

    if _shareable.pytorch is None:
        _release_lock(torch)
        # WHY kept for good: PyTorch refers to it as long as any of its blocks exists.
        _shareable.pytorch = make(*_shareable.callback_addresses())
    # PyTorch starts CUDA here, and not inside of a callback.
    torch.cuda.current_device()
    with _shareable.pools.allocating(torch, device):
        yield


def _release_lock(torch: Any) -> None:
    """A thread that allocates would wait for Python, and one with Python for the allocator."""
    setting = "release_lock_on_cudamalloc:True"
    given = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if setting in given:
        return
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if change is None:
        change = getattr(torch._C, "_cuda_cudaCachingAllocator_set_allocator_settings", None)
    if change is not None:
        # WHY with those of the environment: a change sets all others to their defaults.
        change(f"{given},{setting}" if given else setting)


def _torch() -> Any:
    try:
        import torch
    except ImportError as missing:
        raise CudaIpcError(
            "UNSUPPORTED", f"Cannot make tensors of PyTorch: {missing} (pip install torch)"
        ) from missing
    return torch
