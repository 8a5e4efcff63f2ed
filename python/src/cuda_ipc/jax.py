"""A model's weights as JAX arrays, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ._choices import Access
from ._keywords import explains_keywords
from ._waiting import async_form
from ._weights import REQUEST_S, Weights, load_views
from .arrays import Array
from .errors import CudaIpcError

if TYPE_CHECKING:
    from .hub import Hub

__all__ = ["Weights", "load_file", "load_file_async"]


@explains_keywords
def load_file(
    name: str,
    *,
    hub: Hub | None = None,
    access: Literal["read-write", "copy"] = "read-write",
    copy: bool = False,
    wait: bool = False,
    timeout: float | None = REQUEST_S,
) -> Weights:
    """The arrays of a bundle, by name, as `safetensors.flax.load_file` returns them.

    JAX has no read-only views, so the bundle is opened for writing. JAX does not write to its
    arrays. But do not donate them (`donate_argnums`). If `access` is "copy", the bundle is opened
    for reading, and what is written stays in this process: a donated array changes no other one.
    The host copies pages that are written, and a GPU all arrays. With `copy`, each array is a copy
    of its own, on the host, too. JAX has no 64-bit dtypes unless `jax_enable_x64` is set: such
    arrays are copied to 32 bits. The rest is as for `cuda_ipc.numpy.load_file`.
    """
    if access not in ("read-write", "copy"):
        raise ValueError(
            f'access must be "read-write" or "copy", not {access!r}: JAX has no read-only arrays'
        )
    wanted: Access = "read" if copy else access
    view = copier() if copy else viewer()
    return load_views(
        name, view, hub=hub, access=wanted, wait=wait, timeout=timeout, retyped=retyped
    )


load_file_async = async_form(load_file)


def retyped(array: Any, name: str) -> Any:
    dtype = getattr(_jax().numpy, name, None)
    return array if dtype is None else array.view(dtype)


def viewer() -> Callable[[Array], Any]:
    jax = _jax()

    def view(array: Array) -> Any:
        return jax.dlpack.from_dlpack(array)

    return view


def copier() -> Callable[[Array], Any]:
    jax = _jax()
    from ._dtypes import DTYPES, numpy_dtype

    def copy(array: Array) -> Any:
        import numpy

        values = numpy.frombuffer(array.tobytes(), numpy_dtype(DTYPES[array.dtype]))
        values = values.reshape(array.shape)
        kind, _, ordinal = array.device.partition(":")
        platform = "cpu" if kind == "host" else "gpu"
        device = jax.local_devices(backend=platform)[int(ordinal or 0)]
        # WHY copied again: on the CPU JAX may take the very memory of an array of NumPy.
        return jax.numpy.array(jax.device_put(values, device), copy=True)

    return copy


def _jax() -> Any:
    try:
        import jax
        import jax.dlpack
    except ImportError as missing:
        raise CudaIpcError(
            "UNSUPPORTED", f"Cannot make arrays of JAX: {missing} (pip install jax)"
        ) from missing
    return jax
