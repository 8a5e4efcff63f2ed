/** The rank that a launcher of processes, such as `srun` or `mpirun`, has given this process. */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";

/** The names of a launcher's variables. */
interface Variables {
  readonly rank: string;
  readonly size: string;
}

/** Open MPI, and MPICH and its relatives. */
const MPI: readonly Variables[] = [
  { rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE" },
  { rank: "PMI_RANK", size: "PMI_SIZE" },
];
const SLURM: Variables = { rank: "SLURM_PROCID", size: "SLURM_NTASKS" };

/**
 * Returns the rank of this process and the number of ranks, as `Group.join` takes them. Reads the
 * variables of Open MPI (`OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`), of MPICH (`PMI_RANK`,
 * `PMI_SIZE`) and of Slurm (`SLURM_PROCID`, `SLURM_NTASKS`).
 *
 * Slurm's are read only if no MPI launcher has set its own: inside a Slurm job, `mpirun` passes the
 * same Slurm variables to all its ranks.
 * @throws NO_RANK if no launcher has set a rank
 * @throws INVALID_RANK if a variable is not an integer, the rank is not below the size, the size is
 * missing or above 256, or two MPI launchers contradict each other
 * @example
 * using group = await Group.join({ name: "workers", ...rankFromEnvironment() });
 */
export function rankFromEnvironment(env: Readonly<NodeJS.ProcessEnv> = process.env): {
  rank: number;
  size: number;
} {
  const isSet = ({ rank }: Variables) => (env[rank] ?? "") !== "";
  const mpi = MPI.filter(isSet);
  const [first, second] = mpi.length > 0 || !isSet(SLURM) ? mpi : [SLURM];
  if (first === undefined) {
    const names = [...MPI, SLURM].map(({ rank }) => rank).join(", ");
    throw new CudaIpcError(
      "NO_RANK",
      `Cannot find the rank of this process: none of ${names} is set. Start it with srun or mpirun`,
    );
  }
  const found = read(env, first);
  if (second === undefined) return found;
  const { rank, size } = read(env, second);
  if (rank === found.rank && size === found.size) return found;
  const one = `${first.rank} says ${found.rank} of ${found.size}`;
  throw invalid(`${one}, and ${second.rank} says ${rank} of ${size}`);
}

function read(env: Readonly<NodeJS.ProcessEnv>, names: Variables): { rank: number; size: number } {
  const size = integer(env, names.size, 1, limits.groupSizeMax);
  return { rank: integer(env, names.rank, 0, size - 1), size };
}

function integer(env: Readonly<NodeJS.ProcessEnv>, name: string, min: number, max: number): number {
  const text = env[name] ?? "";
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  const found = text === "" ? "not set" : JSON.stringify(text);
  throw invalid(`${name} is ${found}, wanted an integer from ${min} to ${max}`);
}

function invalid(found: string): CudaIpcError {
  const remedy = "Unset what is left of another launcher, or pass rank and size yourself";
  return new CudaIpcError(
    "INVALID_RANK",
    `Cannot find the rank of this process: ${found}. ${remedy}`,
  );
}
