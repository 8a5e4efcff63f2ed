/** An MPS server for the processes of a test, and a check for tests that cannot run under one. */
import { spawnSync } from "node:child_process";
import { MultiProcessService } from "../../bench/channel/mps.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";

const CONTROL = "nvidia-cuda-mps-control";

/** The reason why no MPS server can run here, or undefined. */
export function whyNoMps(): string | undefined {
  const missing = spawnSync(CONTROL, ["-h"]).error !== undefined;
  return whyNoGpu() ?? (missing ? `no ${CONTROL}` : undefined);
}

export function startMps(): MultiProcessService {
  const mps = MultiProcessService.start();
  if (typeof mps === "string") throw new Error(mps);
  return mps;
}

/** The reason to skip a test that ends every context of this process's MPS server, or false. */
export function whyNotUnderMps(): string | false {
  const isUnder = process.env.CUDA_MPS_PIPE_DIRECTORY !== undefined;
  return isUnder && "under MPS it would end this process's context, too: see mps-deaths.test.ts";
}
