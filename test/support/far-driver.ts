/**
 * A driver that is neither host nor CUDA. The CPU cannot see its memory. Otherwise it is like the
 * host driver. Code above the seam must ask what a driver can do, not what it is.
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
