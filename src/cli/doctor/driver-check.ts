/** Checks whether there is a CUDA driver, and where. */
import { plural } from "../terminal/words.js";
import { type Check, failedCheck } from "./check.js";
import { listGpus } from "./device-checks.js";
import type { Surroundings } from "./surroundings.js";

const KERNEL_DRIVER = "/proc/driver/nvidia/version";

export interface DriverFindings {
  readonly check: Check;
  /** `cuda:0` and so on. Empty without a driver or a GPU. */
  readonly gpus: readonly string[];
}

/** @param list lists the GPUs that this process sees, and throws the reason if there are none */
export function checkDriver(
  surroundings: Surroundings,
  list: () => string[] = listGpus,
): DriverFindings {
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
    const toDo =
      "The kernel has the driver, but this container does not: start it with --gpus all.";
    return { check: hidden ? { ...found, toDo } : found, gpus: [] };
  }
}

/** The path of the library that was loaded. */
function loadedLibrary(surroundings: Surroundings): string | undefined {
  return /\S*\/libcuda\.so\S*/.exec(surroundings.text("/proc/self/maps") ?? "")?.[0];
}

function kernelVersion(text: string): string | undefined {
  const version = /\s(\d+\.\d+(?:\.\d+)?)\s/.exec(text)?.[1];
  return version === undefined ? undefined : `version ${version}`;
}
