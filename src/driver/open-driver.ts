/** Opens the driver of each kind of device. */
import type { DeviceKind } from "../base/device-reference.js";
import { createCudaDriver } from "./cuda/cuda-driver.js";
import type { GpuDriver } from "./gpu-driver.js";
import { createHostDriver } from "./host/host-driver.js";

const drivers: Readonly<Record<DeviceKind, () => GpuDriver>> = {
  cuda: () => createCudaDriver(),
  host: () => createHostDriver(),
};

/** Opens a driver. Tests pass their own. */
export type DriverOpener = (kind: DeviceKind) => GpuDriver;

/**
 * Opens a driver. The caller closes it.
 * @throws for `cuda`: DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND
 */
export const openDriver: DriverOpener = (kind) => drivers[kind]();
