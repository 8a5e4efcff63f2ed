/**
 * Examples with one process for each rank. `mpirun` and `srun` start them as they are. Without a
 * launcher the program starts the ranks itself, with the variables that `mpirun` would set.
 */
import { join } from "node:path";
import { CudaIpcError } from "cuda-ipc";
import { rankFromEnvironment } from "cuda-ipc/peer";
import { Child } from "./child.ts";
import { LIMIT, type Options, runRoles, say, temporaryFolder, WrongOption } from "./program.ts";

export interface RankOptions extends Options {
  readonly rank: number;
  readonly size: number;
  /** Where the ranks meet, for `Group.join`. */
  readonly group: { readonly name: string } | { readonly path: string };
}

interface Ranks {
  /** Says why the example cannot run with this many ranks. */
  readonly refuses: (size: number) => string | undefined;
  readonly rank: (options: RankOptions) => Promise<void>;
}

/** @param example its `import.meta.url` */
export function runRanks(
  example: string,
  defaults: { readonly elements: number; readonly processes: number },
  { refuses, rank }: Ranks,
): Promise<void> {
  const check = (what: string, size: number) => {
    const found = refuses(size);
    if (found !== undefined) throw new WrongOption(`${what} must be ${found}`);
  };
  const startedByLauncher = async (options: Options) => {
    const found = rankFromEnvironment();
    check("the number of ranks", found.size);
    await rank({ ...options, ...found, group: groupOf(options) });
  };
  return runRoles(defaults, {
    rank: startedByLauncher,
    parent: async (options) => {
      if (hasLauncher()) return startedByLauncher(options);
      check("--processes", options.processes);
      return startRanks(example, options);
    },
  });
}

async function startRanks(example: string, options: Options): Promise<void> {
  const { elements, processes: size } = options;
  const path = join(temporaryFolder(), "group.sock");
  say(`starts ${size} ranks with ${elements} elements each`);
  const children = Array.from({ length: size }, (_, rank) => {
    const env = { PMI_RANK: String(rank), PMI_SIZE: String(size) };
    return new Child(example, "rank", options, { args: [path], env });
  });
  await Promise.all(children.map((child) => child.finished(4 * LIMIT.timeoutMs)));
  say(`all ${size} are done`);
}

function hasLauncher(): boolean {
  try {
    rankFromEnvironment();
    return true;
  } catch (error) {
    if (error instanceof CudaIpcError && error.code === "NO_RANK") return false;
    throw error;
  }
}

/** The argument after the role: a path or a name. By default the name that the job has. */
function groupOf({ args: [given] }: Options): RankOptions["group"] {
  if (given !== undefined) return given.includes("/") ? { path: given } : { name: given };
  const { PMIX_NAMESPACE, OMPI_MCA_ess_base_jobid, SLURM_JOB_ID, SLURM_STEP_ID } = process.env;
  const slurm = SLURM_JOB_ID && `${SLURM_JOB_ID}.${SLURM_STEP_ID ?? 0}`;
  const job = PMIX_NAMESPACE || OMPI_MCA_ess_base_jobid || slurm;
  if (job) return { name: `job-${job.replaceAll(/[^\w.-]/g, "-").slice(-40)}` };
  const remedy = "give the group a name of its own, after the role: rank NAME";
  throw new WrongOption(`the launcher does not name its job, so ${remedy}`);
}
