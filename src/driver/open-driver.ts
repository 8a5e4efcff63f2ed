/**
 * The drivers of this process: one of each kind, opened at first use and shared by everything above.
 * WHY one: a second CUDA driver would not know what the first has registered and mapped.
 */
import { createCudaDriver } from "./cuda/cuda-driver.js";
import type { DriverKind, GpuDriver } from "./gpu-driver.js";
import { createHostDriver } from "./host/host-driver.js";

const opened = new Map<DriverKind, GpuDriver>();

/**
 * It stays open until the process ends; callers do not close it.
 * @throws for `cuda` DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND; the next call tries again
 */
export function openDriver(kind: DriverKind): GpuDriver {
  let driver = opened.get(kind);
  if (driver === undefined) {
    driver = kind === "cuda" ? createCudaDriver() : createHostDriver();
    opened.set(kind, driver);
  }
  return driver;
}
