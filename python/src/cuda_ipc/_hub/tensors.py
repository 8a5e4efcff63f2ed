"""Arrays of frameworks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._choices import Replace, Sharing
from .._waiting import async_form
from ..errors import coded
from ..shared import REQUEST_S
from .arrays import HubArrays
from .session import check_flag, check_replace, discard

if TYPE_CHECKING:
    from .._sharing import SharedTensor


class HubTensors(HubArrays):
    @coded("share an array")  # its imports, too, open files
    def share(
        self,
        name: str,
        tensor: Any,
        *,
        copy: bool = False,
        pinned: bool = False,
        replace: Replace = False,
        preallocate: bool = False,
        sharing: Sharing | None = None,
        timeout: float | None = REQUEST_S,
    ) -> SharedTensor:
        """Publishes an array of torch, CuPy, Numba, JAX or NumPy, without a copy if possible.

        `copied` of the result says whether the values had to be copied, and `why`. Without a copy,
        others see what is written to `tensor` later. Work of the GPU on it is waited for.

        `mechanism` of the result says what keeps the memory. "legacy" is memory of cudaMalloc,
        which PyTorch, CuPy and Numba have by default: the name ends with this process, and the
        tensor is kept until `close()` and until no other process has it open. With `copy`, the
        values are copied all the same: the copy outlives this process while others have it open.

        With `replace` it takes over the name of an older array, as `create` does. `preallocate` is
        for the copy, as for `create`.

        Raises UNSUPPORTED for a tensor that requires grad, is sparse or lies on no CPU and no CUDA
        device; TypeError for what is no array; and as `create`.
        """
        check_replace(replace)
        check_flag("pinned", pinned)
        check_flag("copy", copy)
        from .._sharing import Wanted, share

        wanted = Wanted(copy, pinned, sharing, replace, preallocate)
        return share(self, name, tensor, wanted, timeout)

    share_async = async_form(share, discard)
