/** Whether there is a CUDA driver, where it was found, and what to do where it was not. */
import { plural } from "../words.js";
import { type Check, failedCheck } from "./check.js";
import { listGpus } from "./device-checks.js";
import type { Surroundings } from "./surroundings.js";

const KERNEL_DRIVER = "/proc/driver/nvidia/version";

export interface DriverFindings {
  readonly check: Check;
  /** `cuda:0`, ...; none where there is no driver or no GPU. */
  readonly gpus: readonly string[];
}

/** @param list the GPUs that this process sees; throws why it sees none */
export function checkDriver(surroundings: Surroundings, list: () => string[] = listGpus): DriverFindings {
  const kernelDriver = surroundings.text(KERNEL_DRIVER);
  try {
    const gpus = list();
    const version = kernelDriver === undefined ? undefined : kernelVersion(kernelDriver);
    const found = [loadedLibrary(surroundings), version, plural(gpus.length, "GPU")].filter(
      (words) => words !== undefined,
    );
    return { check: { name: "CUDA driver", state: "ok", detail: found.join(", ") }, gpus };
  } catch (error) {
    const found = failedCheck("CUDA driver", error);
    const hidden = found.state === "missing" && kernelDriver !== undefined;
    const toDo = "The kernel has the driver, this container has not: start it with --gpus all.";
    return { check: hidden ? { ...found, toDo } : found, gpus: [] };
  }
}

/** The file that was loaded, which the name alone does not tell. */
function loadedLibrary(surroundings: Surroundings): string | undefined {
  return /\S*\/libcuda\.so\S*/.exec(surroundings.text("/proc/self/maps") ?? "")?.[0];
}

function kernelVersion(text: string): string | undefined {
  const version = /\s(\d+\.\d+(?:\.\d+)?)\s/.exec(text)?.[1];
  return version === undefined ? undefined : `version ${version}`;
}
