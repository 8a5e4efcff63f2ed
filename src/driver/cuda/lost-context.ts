/**
 * What to say of a context that is lost. Under MPS the contexts of all clients of a server go together, so that the process which
 * is told need not be the one at fault.
 * https://docs.nvidia.com/deploy/mps/index.html
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { cuResult } from "../../ffi/cuda-constants.js";

/** Whether the contexts of a device belong to an MPS server; unknown to drivers without the attribute MPS_ENABLED. */
export type MpsUse = "in use" | "not in use" | "unknown";

export interface LostContext {
  /** Follows the driver's name of the status. */
  readonly found: string;
  /** In the place of the remedy of DEVICE_LOST; undefined if that says it all. */
  readonly remedy: string | undefined;
}

/** https://docs.nvidia.com/deploy/mps/index.html: where MPS listens if CUDA_MPS_PIPE_DIRECTORY is not set. */
const DEFAULT_PIPE_FOLDER = "/tmp/nvidia-mps";

const ofMps: readonly number[] = [cuResult.CUDA_ERROR_MPS_RPC_FAILURE, cuResult.CUDA_ERROR_MPS_CLIENT_TERMINATED];

const LOST = "this process's context on the device is lost, and every later call fails alike";

export function lostContext(status: number, mps: MpsUse): LostContext {
  if (mps === "in use" || ofMps.includes(status)) {
    return {
      found: `${LOST}; under MPS that happens to every client if one is killed or faults while its kernel runs`,
      remedy:
        "Start this process again, open by name and go on: a client of its MPS server was killed or faulted, and took " +
        "the contexts of all others with it. Memory and names are unharmed.",
    };
  }
  const pipes = process.env.CUDA_MPS_PIPE_DIRECTORY ?? DEFAULT_PIPE_FOLDER;
  const mayBeMps = mps === "unknown" && existsSync(join(pipes, "control"));
  const other = mayBeMps
    ? `; an MPS server listens in ${pipes}: if it serves this process, another client may be at fault`
    : "";
  const found = `${LOST}: restart this process; memory that it shared with others is unharmed${other}`;
  return { found, remedy: undefined };
}
