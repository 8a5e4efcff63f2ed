"""The arrays of a bundle as the tensors of a framework. They are views of the shared memory."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._kept import KeptMemory
from ._protocol import DEFAULT_MS_REQUEST
from .arrays import Array, HandleState
from .errors import CudaIpcError
from .shared import Access, private_copy

if TYPE_CHECKING:
    from .hub import Hub

REQUEST_S = DEFAULT_MS_REQUEST / 1000


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
    private: bool = False,
    viewing: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
) -> Weights:
    """Opens the bundle, and views each of its arrays within `viewing`.

    With `private`, a write to host memory that was opened for reading stays in this process.
    Raises as `Hub.open_bundle`.
    """
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
        layouts, weights = bundle.layouts, Weights(name, bundle.metadata)
        memory, held = bundle.detach()
        kept = KeptMemory(memory, held, hub)
        state = HandleState(name)
        with viewing():
            for key, layout in layouts.items():
                copied = copies and kept.buffer is None
                where = private_copy(kept, layout) if copied else (kept, layout)
                weights[key] = view(Array(state, *where))
        return weights
    except BaseException:
        if own:
            hub.close()
        raise
