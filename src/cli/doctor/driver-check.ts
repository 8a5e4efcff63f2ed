/** Whether there is a CUDA driver, where it was found, and what to do where it was not. */
import { existsSync, readFileSync } from "node:fs";
import { plural } from "../words.js";
import { type Check, failedCheck } from "./check.js";
import { listGpus } from "./device-checks.js";

const KERNEL_DRIVER = "/proc/driver/nvidia/version";

export interface DriverFindings {
  readonly check: Check;
  /** `cuda:0`, ...; none where there is no driver or no GPU. */
  readonly gpus: readonly string[];
}

export function checkDriver(): DriverFindings {
  try {
    const gpus = listGpus();
    const found = [loadedLibrary(), kernelDriver(), plural(gpus.length, "GPU")].filter((words) => words !== undefined);
    return { check: { name: "CUDA driver", state: "ok", detail: found.join(", ") }, gpus };
  } catch (error) {
    const found = failedCheck("CUDA driver", error);
    const hidden = found.state === "missing" && existsSync(KERNEL_DRIVER);
    const toDo = "The kernel has the driver, this container has not: start it with --gpus all.";
    return { check: hidden ? { ...found, toDo } : found, gpus: [] };
  }
}

/** The file that was loaded, which the name alone does not tell. */
function loadedLibrary(): string | undefined {
  return /\S*\/libcuda\.so\S*/.exec(readFileSync("/proc/self/maps", "utf8"))?.[0];
}

function kernelDriver(): string | undefined {
  if (!existsSync(KERNEL_DRIVER)) return undefined;
  const version = /\s(\d+\.\d+(?:\.\d+)?)\s/.exec(readFileSync(KERNEL_DRIVER, "utf8"))?.[1];
  return version === undefined ? undefined : `version ${version}`;
}
