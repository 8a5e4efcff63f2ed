"""Arrays of frameworks, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..shared import REQUEST_S
from .arrays import HubArrays

if TYPE_CHECKING:
    from .._sharing import SharedTensor


class HubTensors(HubArrays):
    def share(
        self,
        name: str,
        tensor: Any,
        *,
        pinned: bool = False,
        sharing: Mapping[str, Any] | None = None,
        timeout: float | None = REQUEST_S,
    ) -> SharedTensor:
        """Publishes an array of torch, CuPy, Numba, JAX or NumPy, without a copy if possible.

        `copied` of the result says whether the values had to be copied, and `why`. Without a copy,
        others see what is written to `tensor` later, and the result keeps it until `close()`. Work
        of the GPU on it is waited for. Raises UNSUPPORTED for a tensor that requires grad, is
        sparse or lies on no CPU and no CUDA device; TypeError for what is no array; and as
        `create`.
        """
        from .._sharing import share

        return share(self, name, tensor, pinned, sharing, timeout)
