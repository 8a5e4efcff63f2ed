/**
 * Chooses the device on which an object's memory is used: its own by default, found by UUID, or
 * another one that was asked for. That one must reach the memory, unless a copy was asked for.
 */

import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { type DeviceReference, uuidOf } from "../../base/device-reference.js";
import { CudaError, CudaIpcError, hasCode } from "../../base/errors.js";
import { copyBuffer } from "../../gpu/arrays/array-copy.js";
import type { Device } from "../../gpu/device.js";
import { DescriptorMemory } from "../../gpu/memory/descriptor-memory.js";
import { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import type { ImportCache } from "../../gpu/memory/import-cache.js";
import { openMemory } from "../../gpu/memory/mechanisms.js";
import type { ReplicaOf } from "../../wire/descriptor.js";
import type { Devices } from "../devices.js";
import type { OpenedObject } from "./hub-objects.js";

/**
 * `own`: mapped on the device that the memory is on. `peer`: mapped on another device, which
 * reaches it by NVLink or PCIe. `copy`: a copy of the content at the time of the open.
 */
export type Placement = "own" | "peer" | "copy";

/** Where the memory of an opened object is used, and where its content came from. */
export interface OpenedFrom {
  readonly placement?: Placement;
  readonly replicaOf?: ReplicaOf | undefined;
}

export interface PlaceOptions extends WaitOptions {
  /**
   * Use the memory on this device instead of its own: `cuda:N`. It cannot move between host and
   * GPU.
   */
  readonly device?: string | undefined;
  /**
   * What to do if `device` does not reach the memory: fail with PEER_ACCESS_UNSUPPORTED (default),
   * or open a copy of the current content, for reading unless `access` is `copy`.
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
  if (device.uuid === uuidOf(own))
    return { buffer: importOn(device, imports, opened), placement: "own" };
  checkKinds(device, opened);
  try {
    checkReachable(devices, device, opened, own);
    return { buffer: importOn(device, imports, opened), placement: "peer" };
  } catch (error) {
    if (!hasCode(error, "PEER_ACCESS_UNSUPPORTED") || options.whenUnreachable !== "copy")
      throw error;
  }
  return {
    buffer: await copyTo(device, devices.openByReference(own), imports, opened, options),
    placement: "copy",
  };
}

function chosenDevice(
  devices: Devices,
  { name }: OpenedObject,
  options: PlaceOptions,
  own: DeviceReference,
): Device {
  if (options.device !== undefined) return devices.open(options.device);
  try {
    return devices.openByReference(own);
  } catch (error) {
    if (!hasCode(error, "DEVICE_NOT_FOUND")) throw error;
    const message =
      `Cannot open "${name}" on its own device: ${error.message}; ` +
      'to use it on another GPU, pass { device: "cuda:N" }';
    throw new CudaIpcError("DEVICE_NOT_FOUND", message, { cause: error });
  }
}

/** @throws UNSUPPORTED if a GPU is asked for host memory, or the host for GPU memory */
function checkKinds(device: Device, { name, descriptor }: OpenedObject): void {
  if (device.isSameKindAs(descriptor.device)) return;
  const found = `its memory is of kind ${descriptor.device.kind}`;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot open "${name}" on ${device.name}: ${found}; open it there and use copyFrom`,
  );
}

/** Checked beforehand if this process sees both devices. Otherwise the mapping shows it. */
function checkReachable(
  devices: Devices,
  device: Device,
  { name }: OpenedObject,
  own: DeviceReference,
): void {
  const home = devices.findByReference(own);
  if (home === undefined || device.driver.canAccessPeer(device.ordinal, home.ordinal)) return;
  throw unreachable(
    name,
    device,
    `${device.name} does not reach ${home.name}, where its memory is`,
  );
}

/** With the access `copy`, the buffer is for reading if the device cannot copy on write. */
function importOn(device: Device, imports: ImportCache, opened: OpenedObject): DeviceBuffer {
  const { name, object, descriptor, fds } = opened;
  const { byteLength } = descriptor;
  const own = device.uuid === uuidOf(descriptor.device);
  if (opened.access === "copy" && device.driver.memoryFiles && descriptor.mechanism === "memfd") {
    // WHY not from the cache: each open has copies of its own.
    const memory = DescriptorMemory.open(device, descriptor, fds[0], "copy");
    return DeviceBuffer.over(memory, { label: name, byteLength, access: "read-write" });
  }
  const access = opened.access === "copy" ? "read" : opened.access;
  try {
    const memory = imports.open(`${object} ${access} ${device.uuid}`, () =>
      openMemory(device, descriptor, fds[0], access),
    );
    return DeviceBuffer.over(memory, { label: name, byteLength, access });
  } catch (error) {
    const refused =
      error instanceof CudaError && error.call === "cuMemSetAccess" && error.code !== "DEVICE_LOST";
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
  if (access === "read-write") {
    const message =
      `Cannot open "${name}" for writing on ${device.name}: only a copy of it can be there, ` +
      'which nobody else sees; to write to that copy, pass { access: "copy" }';
    throw new CudaIpcError("PEER_ACCESS_UNSUPPORTED", message);
  }
  using original = importOn(home, imports, opened);
  const copy = DeviceBuffer.allocate(device, descriptor.byteLength, { label: name });
  try {
    const deadline = new Deadline(
      `copy "${name}" to ${device.name}`,
      options,
      Number.POSITIVE_INFINITY,
    );
    deadline.check();
    await copyBuffer(copy, original);
    return access === "copy" ? copy : copy.asReadOnly();
  } catch (error) {
    copy.close();
    throw error;
  }
}

function unreachable(name: string, device: Device, found: string, cause?: unknown): CudaIpcError {
  const message =
    `Cannot open "${name}" on ${device.name}: ${found}; ` +
    '{ whenUnreachable: "copy" } opens a copy';
  return new CudaIpcError("PEER_ACCESS_UNSUPPORTED", message, { cause });
}
