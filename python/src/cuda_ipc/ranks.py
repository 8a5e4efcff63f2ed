"""The rank that a launcher of processes, such as `srun` or `mpirun`, has given this process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from ._protocol import LIMIT_GROUP_SIZE
from .errors import CudaIpcError


class Rank(NamedTuple):
    """The rank of this process, from 0 on, and the number of ranks."""

    rank: int
    size: int


#: Open MPI; MPICH and its relatives; torchrun.
_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
_TORCH = ("RANK", "WORLD_SIZE")
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")


def rank_from_environment(env: Mapping[str, str] | None = None) -> Rank:
    """The rank of this process and the number of ranks, as `Group.join` takes them.

    Reads the variables of Open MPI (OMPI_COMM_WORLD_RANK and _SIZE) and of MPICH (PMI_RANK,
    PMI_SIZE); without them those of torchrun (RANK, WORLD_SIZE); without these those of Slurm
    (SLURM_PROCID, SLURM_NTASKS), which `mpirun` passes unchanged to all its ranks.

    Raises NO_RANK if no launcher has set a rank; INVALID_RANK if a variable is no integer, the rank
    is not below the size, the size is missing or above 256, or two MPI launchers contradict each
    other.
    """
    found = os.environ if env is None else env
    launchers = [names for names in _MPI if found.get(names[0])]
    if not launchers:
        launchers = [names for names in (_TORCH, _SLURM) if found.get(names[0])][:1]
    if not launchers:
        names = ", ".join(names[0] for names in (*_MPI, _TORCH, _SLURM))
        raise CudaIpcError(
            "NO_RANK",
            f"Cannot find the rank of this process: none of {names} is set. Start it with srun, "
            "mpirun or torchrun",
        )
    first, *others = [(_read(found, names), names) for names in launchers]
    rank, told_by = first
    for other, variables in others:
        if other != rank:
            raise _invalid(
                f"{told_by[0]} says {rank.rank} of {rank.size}, and {variables[0]} says "
                f"{other.rank} of {other.size}"
            )
    return rank


def _read(env: Mapping[str, str], names: tuple[str, str]) -> Rank:
    size = _integer(env, names[1], 1, LIMIT_GROUP_SIZE)
    return Rank(_integer(env, names[0], 0, size - 1), size)


def _integer(env: Mapping[str, str], name: str, low: int, high: int) -> int:
    text = env.get(name, "")
    if re.fullmatch(r"[0-9]{1,9}", text) and low <= int(text) <= high:
        return int(text)
    found = repr(text) if text else "not set"
    raise _invalid(f"{name} is {found}, wanted an integer from {low} to {high}")


def _invalid(found: str) -> CudaIpcError:
    return CudaIpcError(
        "INVALID_RANK",
        f"Cannot find the rank of this process: {found}. Unset what is left of another launcher, "
        "or pass rank and size yourself",
    )
