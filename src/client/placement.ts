/**
 * On which device of this process an object's memory is used: its own by default, which is found by UUID whatever its number here; or
 * another one that was asked for, directly where that reaches the memory, and as a copy only where that was asked for too.
 */

import { Deadline, type WaitOptions } from "../base/deadline.js";
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { CudaError, CudaIpcError, hasCode } from "../base/errors.js";
import { copyBuffer } from "../gpu/array-copy.js";
import type { Device } from "../gpu/device.js";
import { DeviceBuffer } from "../gpu/device-buffer.js";
import type { ImportCache } from "../gpu/import-cache.js";
import { importBuffer } from "../gpu/sharing.js";
import type { Devices } from "./devices.js";
import type { OpenedObject } from "./hub-objects.js";

/**
 * `own`: mapped on the device that the memory lies in. `peer`: mapped on another one, which reaches it by NVLink or PCIe. `copy`: a copy
 * of what it held when it was opened.
 */
export type Placement = "own" | "peer" | "copy";

export interface PlaceOptions extends WaitOptions {
  /** Use the memory on this device instead of its own: `cuda:N`. Memory of the host cannot be moved to a GPU this way, nor back. */
  readonly device?: string | undefined;
  /**
   * What to do where `device` does not reach the memory: fail with PEER_ACCESS_UNSUPPORTED (default), or open a copy of what it holds
   * now, for reading.
   */
  readonly whenUnreachable?: "error" | "copy" | undefined;
}

export interface Placed {
  readonly buffer: DeviceBuffer;
  readonly placement: Placement;
}

export async function placeBuffer(
  devices: Devices,
  imports: ImportCache,
  opened: OpenedObject,
  options: PlaceOptions,
): Promise<Placed> {
  const own = opened.descriptor.device;
  const device = chosenDevice(devices, opened, options, own);
  if (device.uuid === uuidOf(own)) return { buffer: importOn(device, imports, opened), placement: "own" };
  checkKinds(device, opened);
  try {
    checkReachable(devices, device, opened, own);
    return { buffer: importOn(device, imports, opened), placement: "peer" };
  } catch (error) {
    if (!hasCode(error, "PEER_ACCESS_UNSUPPORTED") || options.whenUnreachable !== "copy") throw error;
  }
  return { buffer: await copyTo(device, devices.openByReference(own), imports, opened, options), placement: "copy" };
}

function chosenDevice(devices: Devices, { name }: OpenedObject, options: PlaceOptions, own: DeviceReference): Device {
  if (options.device !== undefined) return devices.open(options.device);
  try {
    return devices.openByReference(own);
  } catch (error) {
    if (!hasCode(error, "DEVICE_NOT_FOUND")) throw error;
    const message = `Cannot open "${name}" on its own device: ${error.message}; to use it on another GPU, pass { device: "cuda:N" }`;
    throw new CudaIpcError("DEVICE_NOT_FOUND", message, { cause: error });
  }
}

/** @throws DEVICE_NOT_FOUND where a GPU is asked for host memory or the other way round */
function checkKinds(device: Device, { name, descriptor }: OpenedObject): void {
  if (device.isSameKindAs(descriptor.device)) return;
  const found = `its memory is of kind ${descriptor.device.kind}`;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot open "${name}" on ${device.name}: ${found}; open it there and use copyFrom`,
  );
}

/** Asked beforehand where this process sees both devices; otherwise mapping it shows. */
function checkReachable(devices: Devices, device: Device, { name }: OpenedObject, own: DeviceReference): void {
  const home = devices.findByReference(own);
  if (home === undefined || device.driver.canAccessPeer(device.ordinal, home.ordinal)) return;
  throw unreachable(name, device, `${device.name} does not reach ${home.name}, where its memory is`);
}

function importOn(device: Device, imports: ImportCache, opened: OpenedObject): DeviceBuffer {
  const { name, object, access, descriptor, fds } = opened;
  const own = device.uuid === uuidOf(descriptor.device);
  try {
    return imports.open(`${object} ${access} ${device.uuid}`, () =>
      importBuffer(device, name, descriptor, fds[0], access),
    );
  } catch (error) {
    const refused = error instanceof CudaError && error.call === "cuMemSetAccess" && error.code !== "DEVICE_LOST";
    if (own || !refused) throw error;
    throw unreachable(name, device, error.message, error);
  }
}

async function copyTo(
  device: Device,
  home: Device,
  imports: ImportCache,
  opened: OpenedObject,
  options: WaitOptions,
): Promise<DeviceBuffer> {
  const { name, access, descriptor } = opened;
  if (access !== "read") {
    const message = `Cannot open "${name}" for writing on ${device.name}: only a copy of it can be there, which nobody else sees`;
    throw new CudaIpcError("PEER_ACCESS_UNSUPPORTED", message);
  }
  using original = importOn(home, imports, opened);
  const copy = DeviceBuffer.allocate(device, descriptor.byteLength, { label: name });
  try {
    const deadline = new Deadline(`copy "${name}" to ${device.name}`, options, Number.POSITIVE_INFINITY);
    deadline.check();
    await copyBuffer(copy, original);
    return copy.asReadOnly();
  } catch (error) {
    copy.close();
    throw error;
  }
}

function unreachable(name: string, device: Device, found: string, cause?: unknown): CudaIpcError {
  const message = `Cannot open "${name}" on ${device.name}: ${found}; { whenUnreachable: "copy" } opens a copy`;
  return new CudaIpcError("PEER_ACCESS_UNSUPPORTED", message, { cause });
}
