"""The arrays of a bundle as the tensors of a framework. They are views of the shared memory."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._choices import Access
from ._descriptors import check_name
from ._kept import KeptMemory
from ._protocol import DEFAULT_MS_REQUEST
from .arrays import Array, HandleState
from .errors import CudaIpcError
from .shared import private_copy

if TYPE_CHECKING:
    from .hub import Hub

REQUEST_S = DEFAULT_MS_REQUEST / 1000


#: The metadata of a bundle has it, before the name of an array of bytes that was loaded from a file
#: with a dtype that this package lacks.
_OPAQUE = "cuda-ipc.dtype:"

#: What frameworks call these dtypes. The elements of F4 are two in a byte, which NumPy lacks.
OPAQUE_NAMES = {
    "F4": "float4_e2m1fn_x2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


class Weights(dict[str, Any]):
    """Tensors by name, as `safetensors` returns them, with the `metadata` of the file.

    The tensors are views. Each of them keeps the memory mapped, and this process's lease.
    `torch.save` and `pickle` write the values, which are loaded again as an OrderedDict.
    """

    def __init__(self, name: str, metadata: dict[str, str]) -> None:
        super().__init__()
        #: The name of the bundle.
        self.name = name
        self.metadata = metadata

    def __reduce__(self) -> tuple[Any, ...]:
        # WHY an OrderedDict: `torch.load` refuses classes that PyTorch does not know, and takes
        # this one with attributes. A state_dict is one, too.
        return OrderedDict, (), dict(self.__dict__), None, iter(self.items())


def load_views(
    name: str,
    view: Callable[[Array], Any],
    *,
    hub: Hub | None,
    access: Access,
    wait: bool,
    timeout: float | None,
    retyped: Callable[[Any, str], Any],
    private: bool = False,
    viewing: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Weights:
    """Opens the bundle, and views each of its arrays within `viewing`.

    `retyped` views an array of bytes as a dtype of `OPAQUE_NAMES`, if the framework has it. With
    `private`, a write to host memory that was opened for reading stays in this process.
    Raises as `Hub.open_bundle`.
    """
    # WHY before the hub: a file's path is found to be none even where no hub can be reached.
    check_name(name)
    own = hub is None
    if hub is None:
        from .connecting import connect

        hub = connect()
    try:
        try:
            copies = access == "copy"
            bundle = hub._open_bundle(name, access, wait, timeout, private or copies)
        except CudaIpcError as missing:
            if missing.code == "NOT_FOUND":
                # The hub says who has created it, if anybody has.
                hint = f"{missing.message}. To wait for it, pass wait=True"
                raise CudaIpcError(missing.code, hint) from None
            raise
        metadata = bundle.metadata
        own_metadata = {key: text for key, text in metadata.items() if not key.startswith(_OPAQUE)}
        layouts, weights = bundle.layouts, Weights(name, own_metadata)
        memory, held = bundle.detach()
        kept = KeptMemory(memory, held, hub)
        state = HandleState(name)
        with viewing():
            for key, layout in layouts.items():
                copied = copies and kept.buffer is None
                where = private_copy(kept, layout) if copied else (kept, layout)
                weights[key] = view(Array(state, *where))
                opaque = _opaque_name(metadata.get(_OPAQUE + key))
                if opaque is not None and layout.dtype.name == "uint8":
                    weights[key] = retyped(weights[key], opaque)
        return weights
    except BaseException:
        if own:
            hub.close()
        raise


def _opaque_name(text: str | None) -> str | None:
    """What frameworks call the dtype of such an array. Anyone may have written the text."""
    if text is None:
        return None
    import json

    try:
        found = json.loads(text)
    except ValueError:
        return None
    dtype = found.get("dtype") if isinstance(found, dict) else None
    return OPAQUE_NAMES.get(dtype) if isinstance(dtype, str) else None
