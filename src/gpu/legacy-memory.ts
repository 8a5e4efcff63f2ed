/** Memory that is shared by a 64-byte handle alone, allocated here or imported, as mapped memory. */
import { roundUp } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyExport } from "../driver/legacy-calls.js";
import type { Access } from "../os/mapping.js";
import type { Device } from "./device.js";
import { MappedMemory } from "./mapped-memory.js";

/** What other processes open memory of the legacy mechanism by. */
export interface ExportedHandle extends LegacyExport {
  /** Larger than that of whatever was in the same place before. */
  readonly generation: number;
}

/** New memory of at least so many bytes. Who imported it has closed it before it ends here: on a GPU, what they find then is undefined. */
export function allocateLegacy(device: Device, byteLength: number): MappedMemory {
  const { driver, ordinal } = device;
  const blockByteLength = roundUp(Math.max(1, byteLength), LEGACY_GRANULARITY_BYTES);
  return acquireIn((scope) => {
    const pointer = driver.allocateLegacy(ordinal, blockByteLength);
    const unmap = () => driver.freeLegacy(ordinal, pointer);
    scope.defer(unmap);
    return new MappedMemory(device, { pointer, byteLength: blockByteLength, mechanism: "legacy", unmap });
  });
}

/** The block behind a handle of another process. @throws what `importLegacy` of the driver throws */
export function importLegacy(device: Device, handle: Uint8Array, access: Access): MappedMemory {
  const { driver, ordinal } = device;
  return acquireIn((scope) => {
    const { pointer, blockByteLength } = driver.importLegacy(ordinal, handle, access);
    const unmap = () => driver.closeLegacy(ordinal, pointer);
    scope.defer(unmap);
    return new MappedMemory(device, { pointer, byteLength: blockByteLength, mechanism: "legacy", unmap });
  });
}

/** @throws UNSUPPORTED for memory of another mechanism, and for what was itself imported */
export function exportLegacy({ device, pointer, mechanism, generation }: MappedMemory, label: string): ExportedHandle {
  if (mechanism !== "legacy") {
    const found = `it is ${mechanism} memory`;
    throw new CudaIpcError("UNSUPPORTED", `Cannot export "${label}" by handle: ${found}, wanted legacy`);
  }
  return { ...device.driver.exportLegacy(device.ordinal, pointer), generation };
}
