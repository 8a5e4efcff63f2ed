"""New memory for objects, on the host or on a GPU."""

from __future__ import annotations

from .._memory import HostAllocation, Memory, Take, round_up
from .._protocol import PAGE_BYTES
from ..errors import coded


@coded("allocate memory")  # its imports, too, open files
def allocate(
    device: str, byte_length: int, take: Take | None = None
) -> tuple[Memory, str | None, int]:
    """Memory on "host" or "cuda:N", the UUID of a GPU, and the bytes that were allocated.

    `take` takes the pages of host memory. A GPU's are taken at once.
    """
    if device == "host":
        allocated = max(PAGE_BYTES, round_up(byte_length, PAGE_BYTES))
        return HostAllocation(allocated, take), None, allocated
    from .._cuda import CudaAllocation, context_at, full_uuid

    context = context_at(int(device[len("cuda:") :]))
    memory = CudaAllocation(context, byte_length)
    return memory, full_uuid(context), memory.length
