/**
 * Memory that is shared by a 64-byte handle alone (cudaIpcMemHandle), in blocks of 2 MiB. It ends
 * with its exporter's buffer. On a GPU, what importers find after that is undefined.
 */
import { roundUp } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyExport } from "../../driver/legacy-calls.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { type ArrayHandleDocument, decodeHandle } from "../../wire/ipc-documents.js";
import type { Device } from "../device.js";
import type { ExportMark, ImportedMark } from "./export-marks.js";
import type { Exporter } from "./exporters.js";
import { MappedMemory, type MemoryDescriptor } from "./mapped-memory.js";
import { MemoryMark } from "./memory-mark.js";

/** The handle of a block, and the mark that says whether its exporter still has it. */
export interface ExportedHandle extends LegacyExport {
  /** @internal */
  readonly mark: ExportMark;
}

export class LegacyMemory extends MappedMemory {
  readonly mechanism = "legacy";
  readonly imported: boolean;
  /** Undefined for imported memory. */
  readonly #mark: ExportMark | undefined;
  /** The mark on the hub, of imported memory that has a name. */
  readonly #named: MemoryMark | undefined;

  private constructor(
    device: Device,
    pointer: DevicePointer,
    blockByteLength: number,
    { mark, named }: { readonly mark?: ExportMark; readonly named?: MemoryMark } = {},
  ) {
    super(device, pointer, blockByteLength);
    this.imported = mark === undefined;
    this.#mark = mark;
    this.#named = named;
  }

  /** Importers must close their mappings before this memory is freed. */
  static allocate(device: Device, byteLength: number): LegacyMemory {
    const { driver, ordinal } = device;
    const blockByteLength = roundUp(Math.max(1, byteLength), LEGACY_GRANULARITY_BYTES);
    return acquireIn((scope) => {
      const pointer = driver.allocateLegacy(ordinal, blockByteLength);
      scope.defer(() => driver.freeLegacy(ordinal, pointer));
      const mark = device.exportMarks.add();
      scope.defer(() => mark.end());
      return new LegacyMemory(device, pointer, blockByteLength, { mark });
    });
  }

  /**
   * Opens the block behind a handle.
   * @param named its mark on the hub, which the memory takes over unless this throws
   * @throws what `importLegacy` of the driver throws
   */
  static open(
    device: Device,
    handle: Uint8Array,
    access: Access,
    named?: MemoryMark,
  ): LegacyMemory {
    const { driver, ordinal } = device;
    return acquireIn((scope) => {
      const { pointer, blockByteLength } = driver.importLegacy(ordinal, handle, access);
      scope.defer(() => driver.closeLegacy(ordinal, pointer));
      return new LegacyMemory(device, pointer, blockByteLength, named ? { named } : {});
    });
  }

  /** The handle of memory that may be of any mechanism. @throws UNSUPPORTED if it has none */
  static handleOf(memory: MappedMemory, label: string): ExportedHandle {
    const refuse = (found: string) =>
      new CudaIpcError("UNSUPPORTED", `Cannot export "${label}" by handle: ${found}`);
    if (!(memory instanceof LegacyMemory))
      throw refuse(`it is ${memory.mechanism} memory, wanted legacy`);
    const mark = memory.#mark;
    if (mark === undefined) throw refuse("it was imported, and only its exporter exports it");
    const { driver, ordinal } = memory.device;
    return { ...driver.exportLegacy(ordinal, memory.pointer), mark };
  }

  describe(label: string): MemoryDescriptor {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot describe "${label}": memory of the legacy mechanism has no file descriptor; ` +
        "see IpcArrayHandle",
    );
  }

  exportFd(label: string): OwnedFd {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot export "${label}" as a file descriptor: it is legacy memory`,
    );
  }

  override get gone(): boolean {
    return this.#named?.ended ?? false;
  }

  override refuseGone(label: string): void {
    this.#named?.refuseEnded(`use "${label}"`);
  }

  protected unmap(): void {
    const { driver, ordinal } = this.device;
    const mark = this.#mark;
    if (mark === undefined) {
      const named = this.#named;
      releaseAll([() => driver.closeLegacy(ordinal, this.pointer), () => named?.close()]);
      return;
    }
    // The mark first, so that nobody finds it and then opens what follows.
    releaseAll([() => mark.end(), () => driver.freeLegacy(ordinal, this.pointer)]);
  }
}

/** A block to open, with the key of exporter and handle. */
export interface WantedBlock
  extends Pick<ArrayHandleDocument, "exporter" | "generation" | "handle" | "mark"> {
  readonly key: string;
  readonly blockByteLength: number;
}

/** What tells whether a block is still its exporter's. */
interface Endable {
  readonly ended: boolean;
}

interface OpenBlock {
  readonly exporter: Exporter;
  /** Whether the exporter still has it, under which generation. */
  readonly mark: ImportedMark;
  readonly memory: LegacyMemory;
}

/**
 * The blocks of other processes that a device has open: one mapping for each block and access.
 * Opening a block that is mapped already takes a short path on purpose.
 */
export class LegacyImports {
  readonly #open: Record<Access, Map<string, OpenBlock>> = {
    read: new Map(),
    "read-write": new Map(),
  };
  /** The marks of all blocks that are open here, by handle. */
  readonly #marks = new Map<string, Set<Endable>>();

  /**
   * Opens memory that has a name on a hub. One use of it, which the caller releases.
   * @param fd of the mark; stays the caller's
   * @throws PEER_GONE if the owner is gone, INVALID_HANDLE, IN_USE, INVALID_DESCRIPTOR if the block
   * is smaller than claimed
   */
  openNamed(
    device: Device,
    { legacy, allocationByteLength }: MemoryDescriptor,
    fd: OwnedFd,
    access: Access,
  ): LegacyMemory {
    const { handle } = legacy ?? { handle: "" };
    return acquireIn((scope) => {
      const mark = scope.own(MemoryMark.open(fd), (it) => it.close());
      mark.refuseEnded("open legacy memory");
      this.#refuseEnded(handle, "legacy memory");
      const memory = LegacyMemory.open(device, decodeHandle(handle), access, mark);
      scope.handOver();
      scope.defer(() => memory.release());
      // Checked again: the memory may have been freed meanwhile, and its handle reused.
      mark.refuseEnded("open legacy memory");
      checkLength(memory, allocationByteLength, "legacy memory");
      this.#watch(handle, mark, memory);
      return memory;
    });
  }

  /**
   * One use of the block's mapping, which the caller releases.
   * @throws STALE_HANDLE, INVALID_HANDLE, IN_USE, INVALID_DESCRIPTOR if the block is smaller than
   * claimed
   */
  open(device: Device, wanted: WantedBlock, access: Access, label: string): LegacyMemory {
    const known = this.#open[access].get(wanted.key);
    if (known?.mark.generation === wanted.generation && !known.mark.ended && !known.exporter.gone) {
      return known.memory.retain();
    }
    const what = `array "${label}"`;
    const { exporters } = device;
    return acquireIn((scope) => {
      const exporter = scope.own(exporters.retain(wanted.exporter, what), (it) =>
        exporters.release(it),
      );
      const mark = exporter.mark(wanted.mark, wanted.generation, what);
      mark.refuseEnded(`import ${what}`);
      this.#refuseMixed(wanted, what);
      this.#refuseEnded(wanted.handle, what);
      const open = () => LegacyMemory.open(device, decodeHandle(wanted.handle), access);
      const memory = mark.guard(`import ${what}`, open, (it) => it.release());
      scope.defer(() => memory.release());
      checkLength(memory, wanted.blockByteLength, what);
      this.#watch(wanted.handle, mark, memory);
      this.#open[access].set(wanted.key, { exporter, mark, memory });
      memory.onUnmapped(() => {
        this.#open[access].delete(wanted.key);
        exporters.release(exporter);
      });
      return memory;
    });
  }

  /** A driver would give both the same mapping: that of the freed memory. */
  #refuseMixed(wanted: WantedBlock, what: string): void {
    for (const open of Object.values(this.#open)) {
      const older = open.get(wanted.key);
      if (older === undefined || older.mark.generation === wanted.generation) continue;
      const found = "memory of the same handle, which its exporter has freed, is still open here";
      throw new CudaIpcError("IN_USE", `Cannot import ${what}: ${found}; close that first`);
    }
  }

  #watch(handle: string, mark: Endable, memory: LegacyMemory): void {
    const marks = this.#marks.get(handle) ?? new Set();
    this.#marks.set(handle, marks.add(mark));
    memory.onUnmapped(() => {
      marks.delete(mark);
      if (marks.size === 0) this.#marks.delete(handle);
    });
  }

  /** A driver would give the new memory the same mapping: that of the freed memory. */
  #refuseEnded(handle: string, what: string): void {
    for (const mark of this.#marks.get(handle) ?? []) {
      if (!mark.ended) continue;
      const found = "memory of the same handle, which its exporter has freed, is still open here";
      throw new CudaIpcError("IN_USE", `Cannot import ${what}: ${found}; close that first`);
    }
  }
}

/** @throws INVALID_DESCRIPTOR if the block is smaller than claimed */
function checkLength(memory: LegacyMemory, claimed: number, what: string): LegacyMemory {
  if (claimed <= memory.byteLength) return memory;
  const found = `the descriptor claims a block of ${claimed} bytes, it has ${memory.byteLength}`;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import ${what}: ${found}`);
}
