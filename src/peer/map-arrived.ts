/** Maps memory that another process described and whose descriptors have come, after checking the one against the other. */
import { parseDType } from "../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../array/layout.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { Device } from "../gpu/device.js";
import { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";
import { checkArrived, importBuffer } from "../gpu/sharing.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Descriptor } from "../wire/descriptor.js";
import { lendDevice } from "./lent-devices.js";

export interface MapOptions {
  /** A device of the caller's, or the name of one; default the device that the memory is of. */
  readonly device: Device | string | undefined;
  readonly access: Access;
}

/**
 * The file descriptors stay the caller's.
 * @param label the name in error messages
 * @throws INVALID_DESCRIPTOR where anything is not as described, UNSUPPORTED on a device of another kind, DEVICE_NOT_FOUND
 */
export function mapArrived(
  label: string,
  descriptor: Descriptor,
  fds: readonly OwnedFd[],
  { device: wanted, access }: MapOptions,
): DeviceBuffer {
  checkArrived(label, descriptor, fds);
  // WHY before it is mapped: an array that leaves its memory is refused while there is nothing to undo.
  checkLayout(layoutOf(descriptor), descriptor.byteLength);
  const [memory] = fds;
  if (memory === undefined) throw new TypeError("memory without a descriptor");
  return acquireIn((scope) => {
    if (wanted instanceof Device) return importOn(wanted, label, descriptor, memory, access);
    const lent = scope.own(lendDevice(wanted, descriptor.device), (lent) => lent.giveBack());
    const buffer = importOn(lent.device, label, descriptor, memory, access);
    buffer.onUnmapped(() => lent.giveBack());
    return buffer;
  });
}

/** The array that the descriptor speaks of, on memory that `mapArrived` has mapped; closing it closes that. */
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
    throw new CudaIpcError("UNSUPPORTED", `Cannot open ${label} on ${device.name}: it is memory of a ${kind} device`);
  }
  return importBuffer(device, label, descriptor, memory, access);
}

function layoutOf({ content }: Descriptor): ArrayLayout {
  if (content.kind !== "array") {
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open memory without a name: it holds a ${content.kind}`);
  }
  return { ...content.array, dtype: parseDType(content.array.dtype) };
}
