/** Checks received file descriptors against their descriptor, then maps the memory. */
import { parseDType } from "../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../array/layout.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { DeviceArray } from "../gpu/arrays/device-array.js";
import { Device } from "../gpu/device.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { checkArrived, importBuffer } from "../gpu/memory/sharing.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Descriptor } from "../wire/descriptor.js";
import { lendDevice } from "./lent-devices.js";

export interface MapOptions {
  /** A device or its name. The default is the device of the memory. */
  readonly device: Device | string | undefined;
  readonly access: Access;
}

/**
 * Maps the memory. The caller keeps the file descriptors.
 * @param label the name in error messages
 * @throws INVALID_DESCRIPTOR if the file descriptors do not match the descriptor
 * @throws UNSUPPORTED if the device is of another kind than the memory
 * @throws DEVICE_NOT_FOUND
 */
export function mapArrived(
  label: string,
  descriptor: Descriptor,
  fds: readonly OwnedFd[],
  { device: wanted, access }: MapOptions,
): DeviceBuffer {
  checkArrived(label, descriptor, fds);
  // The layout is checked before mapping, when there is nothing to undo.
  checkLayout(layoutOf(descriptor), descriptor.byteLength);
  const [memory] = fds;
  if (memory === undefined) throw new TypeError("memory without a file descriptor");
  return acquireIn((scope) => {
    if (wanted instanceof Device) return importOn(wanted, label, descriptor, memory, access);
    const lent = scope.own(lendDevice(wanted, descriptor.device), (lent) => lent.giveBack());
    const buffer = importOn(lent.device, label, descriptor, memory, access);
    buffer.onUnmapped(() => lent.giveBack());
    return buffer;
  });
}

/** Returns the array of the descriptor on mapped memory. Closing the array closes the memory. */
export function arrayOn(buffer: DeviceBuffer, descriptor: Descriptor): DeviceArray {
  return new DeviceArray(buffer, layoutOf(descriptor), () => buffer.close());
}

function importOn(
  device: Device,
  label: string,
  descriptor: Descriptor,
  memory: OwnedFd,
  access: Access,
): DeviceBuffer {
  const { kind } = descriptor.device;
  if (!device.isSameKindAs(descriptor.device)) {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot open ${label} on ${device.name}: it is memory of a ${kind} device`,
    );
  }
  return importBuffer(device, label, descriptor, memory, access);
}

function layoutOf({ content }: Descriptor): ArrayLayout {
  if (content.kind !== "array") {
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot open memory without a name: it holds a ${content.kind}`,
    );
  }
  return { ...content.array, dtype: parseDType(content.array.dtype) };
}
