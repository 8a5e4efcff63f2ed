/**
 * A driver that is neither the host's nor CUDA's: its memory is not visible to the CPU, and all else
 * is as on the host. What runs on it above the seam asks the driver what it can do, not what it is.
 */
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";

export function createFarDriver(): GpuDriver {
  const host = createHostDriver();
  return {
    ...host,
    cpuVisible: false,
    cpuAddress(pointer) {
      host.cpuAddress(pointer);
      return undefined;
    },
    describeDevice: (ordinal) => ({ ...host.describeDevice(ordinal), id: "far" }),
  };
}
