/** Memory that is shared by a 64-byte handle alone, allocated here or imported, as mapped memory. */
import { roundUp } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyExport } from "../driver/legacy-calls.js";
import type { Access } from "../os/mapping.js";
import type { Device } from "./device.js";
import type { ExportMark } from "./export-marks.js";
import { MappedMemory } from "./mapped-memory.js";

/** What other processes open memory of the legacy mechanism by. */
export interface ExportedHandle extends LegacyExport {
  readonly mark: ExportMark;
}

/** New memory of at least so many bytes. Who imported it has closed it before it ends here: on a GPU, what they find then is undefined. */
export function allocateLegacy(device: Device, byteLength: number): MappedMemory {
  const { driver, ordinal } = device;
  const blockByteLength = roundUp(Math.max(1, byteLength), LEGACY_GRANULARITY_BYTES);
  return acquireIn((scope) => {
    const pointer = driver.allocateLegacy(ordinal, blockByteLength);
    const free = () => driver.freeLegacy(ordinal, pointer);
    scope.defer(free);
    const mark = device.exportMarks.add();
    scope.defer(() => mark.end());
    const unmap = () => releaseAll([() => mark.end(), free]);
    return new MappedMemory(device, { pointer, byteLength: blockByteLength, mechanism: "legacy", unmap, mark });
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
export function exportLegacy({ device, pointer, mechanism, mark }: MappedMemory, label: string): ExportedHandle {
  if (mark === undefined) {
    const found =
      mechanism === "legacy"
        ? "it was imported, and only its exporter exports it"
        : `it is ${mechanism} memory, wanted legacy`;
    throw new CudaIpcError("UNSUPPORTED", `Cannot export "${label}" by handle: ${found}`);
  }
  return { ...device.driver.exportLegacy(device.ordinal, pointer), mark };
}
