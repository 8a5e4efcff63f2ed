/**
 * What a device has open of the memory of other processes by their handles: one mapping for each block and access, of which every
 * opening gets a buffer of its own. The path of an opening that finds its mapping is short on purpose.
 */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import type { Access } from "../os/mapping.js";
import { type ArrayHandleDocument, decodeHandle } from "../wire/ipc-documents.js";
import type { Device } from "./device.js";
import { DeviceBuffer } from "./device-buffer.js";
import type { ImportedMark } from "./export-marks.js";
import type { Exporter } from "./exporters.js";
import { importLegacy } from "./legacy-memory.js";

interface OpenBlock {
  readonly exporter: Exporter;
  /** Whether the exporter still has it, under which generation. */
  readonly mark: ImportedMark;
  /** The buffer with which the mapping began; it may be closed while others use the mapping. */
  readonly buffer: DeviceBuffer;
}

/** What is opened, with the key of exporter and handle. */
export interface WantedBlock extends Pick<ArrayHandleDocument, "exporter" | "generation" | "handle" | "mark"> {
  readonly key: string;
  readonly blockByteLength: number;
}

export class LegacyImports {
  readonly #open: Record<Access, Map<string, OpenBlock>> = { read: new Map(), "read-write": new Map() };

  /**
   * A buffer on the block, which the caller closes.
   * @throws STALE_HANDLE, INVALID_HANDLE, INVALID_DESCRIPTOR where the block is smaller than claimed, IN_USE
   */
  open(device: Device, wanted: WantedBlock, access: Access, label: string): DeviceBuffer {
    const known = this.#open[access].get(wanted.key);
    if (known?.mark.generation === wanted.generation && !known.mark.ended && !known.exporter.gone) {
      return known.buffer.twin(label);
    }
    const what = `array "${label}"`;
    const { exporters } = device;
    return acquireIn((scope) => {
      const exporter = scope.own(exporters.retain(wanted.exporter, what), (it) => exporters.release(it));
      const mark = exporter.mark(wanted.mark, wanted.generation, what);
      mark.refuseEnded(`import ${what}`);
      this.#refuseMixed(wanted, what);
      const open = () => importLegacy(device, decodeHandle(wanted.handle), access);
      const mapped = mark.guard(`import ${what}`, open, (it) => it.release());
      scope.defer(() => mapped.release());
      if (wanted.blockByteLength > mapped.byteLength) {
        const found = `the descriptor claims a block of ${wanted.blockByteLength} bytes, it has ${mapped.byteLength}`;
        throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import ${what}: ${found}`);
      }
      const buffer = DeviceBuffer.over(mapped, { label, byteLength: mapped.byteLength, access });
      this.#open[access].set(wanted.key, { exporter, mark, buffer });
      mapped.onUnmapped(() => {
        this.#open[access].delete(wanted.key);
        exporters.release(exporter);
      });
      return buffer;
    });
  }

  /** WHY: to a driver it would be one mapping, that of the memory which was there before. */
  #refuseMixed(wanted: WantedBlock, what: string): void {
    for (const open of Object.values(this.#open)) {
      const older = open.get(wanted.key);
      if (older === undefined || older.mark.generation === wanted.generation) continue;
      const found = `memory that its exporter freed since is still open here under the same handle`;
      throw new CudaIpcError("IN_USE", `Cannot import ${what}: ${found}; close that first`);
    }
  }
}
