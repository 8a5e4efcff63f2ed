/** The implementation for each kind of driver, in one place. */
import type { DeviceKind } from "../base/device-reference.js";
import { createCudaDriver } from "./cuda/cuda-driver.js";
import type { GpuDriver } from "./gpu-driver.js";
import { createHostDriver } from "./host/host-driver.js";

const drivers: Readonly<Record<DeviceKind, () => GpuDriver>> = {
  cuda: () => createCudaDriver(),
  host: () => createHostDriver(),
};

/** How a driver comes about; tests give others. */
export type DriverOpener = (kind: DeviceKind) => GpuDriver;

/**
 * A driver of the caller's own, which the caller closes.
 * @throws for `cuda` DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND
 */
export const openDriver: DriverOpener = (kind) => drivers[kind]();
