"""Arrays of frameworks: where their elements lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ._dtypes import dtype_of
from ._layout import Layout, packed_strides
from .errors import CudaIpcError


class Foreign(NamedTuple):
    """An array of a framework. Its memory stays as long as `owner` is referred to."""

    #: As in DLPack: 1 host, 2 CUDA; and the ordinal.
    device: tuple[int, int]
    #: Of the first element.
    address: int
    #: Its offset counts from the first element, and is 0.
    layout: Layout
    owner: object
    #: The same values in C order, by the framework's own means.
    packed: Callable[[], Any] | None

    def span(self) -> tuple[int, int]:
        """The first byte of the elements, and the one behind the last."""
        low, high = self.layout.bounds()
        return self.address + low, self.address + high


def foreign(tensor: Any) -> Foreign:
    """Finds the memory of an array of torch, CuPy, Numba, JAX or NumPy.

    Raises UNSUPPORTED for what has no memory of its own that could be shared; TypeError for what is
    no array; UNSUPPORTED_DTYPE.
    """
    package = type(tensor).__module__.partition(".")[0]
    if package == "torch" or hasattr(tensor, "data_ptr"):
        return _of_torch(tensor)
    if package in ("jax", "jaxlib"):
        return _of_jax(tensor)
    if getattr(tensor, "__cuda_array_interface__", None) is not None:
        return _of_cuda(tensor)
    if hasattr(tensor, "__array_interface__") and hasattr(tensor, "ctypes"):
        return _of_numpy(tensor)
    raise TypeError(
        f"Cannot share this {type(tensor).__name__}: wanted an array of PyTorch, CuPy, Numba, JAX "
        "or NumPy. For bytes use hub.put()"
    )


def _refused(found: str, remedy: str) -> CudaIpcError:
    return CudaIpcError("UNSUPPORTED", f"Cannot share a tensor: {found}. {remedy}")


def _of_torch(tensor: Any) -> Foreign:
    if str(tensor.layout) != "torch.strided":
        raise _refused(f"its layout is {tensor.layout}", "Pass tensor.to_dense()")
    if tensor.requires_grad:
        raise _refused("it requires grad", "Pass tensor.detach()")
    if tensor.is_conj():
        raise _refused("it is a lazy conjugate", "Pass tensor.resolve_conj().resolve_neg()")
    if tensor.is_neg():
        raise _refused("it is a lazy negative", "Pass tensor.resolve_neg()")
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise _refused(f"it lies on {tensor.device}", 'Move it to "cpu" or "cuda"')
    device = (1, 0) if kind == "cpu" else (2, int(tensor.device.index))
    strides = tuple(int(n) for n in tensor.stride())
    layout = Layout(dtype_of(tensor.dtype), tuple(int(n) for n in tensor.shape), strides, 0)
    return Foreign(device, int(tensor.data_ptr()), layout, tensor, tensor.contiguous)


def _of_jax(array: Any) -> Foreign:
    if not hasattr(array, "unsafe_buffer_pointer"):
        raise _refused(f"it is a {type(array).__name__}", "Call share() outside of jax.jit")
    devices = list(array.devices())
    if len(devices) != 1:
        raise _refused(f"it lies on {len(devices)} devices", "Share each part alone")
    device = devices[0]
    if device.platform not in ("cpu", "gpu", "cuda"):
        raise _refused(f"it lies on {device}", "Move it to the CPU or to a GPU")
    array.block_until_ready()
    shape = tuple(int(n) for n in array.shape)
    layout = Layout(dtype_of(array.dtype), shape, packed_strides(shape), 0)
    where = (1, 0) if device.platform == "cpu" else (2, int(device.local_hardware_id))
    return Foreign(where, int(array.unsafe_buffer_pointer()), layout, array, None)


def _of_numpy(array: Any) -> Foreign:
    if hasattr(array, "mask"):
        raise _refused("it has a mask", "Share its data, or array.filled()")
    dtype = dtype_of(array.dtype)
    layout = _by_bytes(dtype, array.shape, array.strides)
    return Foreign((1, 0), int(array.ctypes.data), layout, array, array.copy)


def _of_cuda(array: Any) -> Foreign:
    """CuPy, Numba, and others that have this interface."""
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise _refused("it has a mask", "Share its data")
    named = getattr(array, "dtype", None)
    dtype = dtype_of(named if named is not None else _dtype_name(interface["typestr"]))
    strides = interface.get("strides")
    shape = interface["shape"]
    layout = (
        Layout(dtype, tuple(map(int, shape)), packed_strides(shape), 0)
        if strides is None
        else _by_bytes(dtype, shape, strides)
    )
    address = int(interface["data"][0])
    from ._cuda_handles import ordinal_of

    ordinal = ordinal_of(address) if address != 0 else 0
    return Foreign((2, ordinal), address, layout, array, getattr(array, "copy", None))


def _by_bytes(dtype: Any, shape: Any, strides: Any) -> Layout:
    steps = []
    for length, stride in zip(shape, strides, strict=True):
        if stride % dtype.itemsize != 0 and length > 1:
            raise _refused(
                f"its elements are {stride} bytes apart, no multiple of their size", "Copy it first"
            )
        steps.append(int(stride) // dtype.itemsize)
    return Layout(dtype, tuple(int(n) for n in shape), tuple(steps), 0)


def _dtype_name(typestr: str) -> str:
    kinds = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
    name = kinds.get(typestr[1:2], typestr)
    return name if name == "bool" else f"{name}{8 * int(typestr[2:] or 0)}"
