/**
 * Tells importers which exports of a device still exist: words in a memory file that they map
 * read-only.
 *
 *     slot   0            1            2
 *           +------------+------------+-----
 *           | generation | generation | ...      of the export in the slot; 0 if it is free
 *           +------------+------------+-----
 *
 * WHY: a driver reuses the handle of freed memory for later memory, and opens an old handle without
 * an error (measured).
 */
import { CudaIpcError } from "../../base/errors.js";
import { nextGeneration } from "../../base/generation.js";
import { limits } from "../../base/limits.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { createExporterFile, openExporterFile } from "../../os/exporter-file.js";
import { Mapping } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { ProcessIdentity } from "../../os/process-identity.js";
import type { MarkLocation } from "../../wire/ipc-documents.js";

const FILE_BYTES = limits.exportsPerDeviceMax * 8;

/** Marks an export as existing. The owner ends the mark before it frees the export. */
export interface ExportMark {
  readonly location: MarkLocation;
  /** Larger than the generation of any earlier export with this handle. */
  readonly generation: number;
  end(): void;
}

interface OwnFile {
  readonly number: number;
  /** Stays open, because importers open the file through it. */
  readonly fd: OwnedFd;
  readonly mapping: Mapping;
  readonly words: BigInt64Array;
}

/** The marks of one device. The device closes them with its last user. */
export class ExportMarks {
  /** Created with the first mark. */
  #file: OwnFile | undefined;
  readonly #free: number[] = [];
  #slotsUsed = 0;

  /** @throws LIMIT_EXCEEDED */
  add(): ExportMark {
    if (this.#free.length === 0 && this.#slotsUsed === limits.exportsPerDeviceMax) {
      const found = `${this.#slotsUsed} exports are open, the limit (exportsPerDeviceMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot export anything more: ${found}`);
    }
    this.#file ??= createFile();
    const { fd, number, words } = this.#file;
    const slot = this.#free.pop() ?? this.#slotsUsed++;
    const generation = nextGeneration();
    Atomics.store(words, slot, BigInt(generation));
    const end = () => {
      // SYNC: stored before the export is freed. An importer that still finds the mark after
      // opening has opened this export and not a later one. Pairs with `ended`.
      Atomics.store(words, slot, 0n);
      this.#free.push(slot);
    };
    return { location: { fd: fd.number, fileNumber: number, slot }, generation, end };
  }

  /** Call it only after all marks have ended. */
  close(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) releaseAll([() => file.mapping.close(), () => file.fd.close()]);
  }
}

function createFile(): OwnFile {
  return acquireIn((scope) => {
    const number = nextGeneration();
    const fd = scope.own(createExporterFile("generations", number, FILE_BYTES), (it) => it.close());
    const mapping = scope.own(Mapping.shared(fd, FILE_BYTES, "read-write"), (it) => it.close());
    return { number, fd, mapping, words: wordsOf(mapping) };
  });
}

/** The marks of one device of another process. */
export class ImportedMarks {
  readonly #mapping: Mapping;
  readonly #words: BigInt64Array;

  private constructor(mapping: Mapping) {
    this.#mapping = mapping;
    this.#words = wordsOf(mapping);
  }

  /**
   * @throws STALE_HANDLE if the process or its device is gone, INVALID_HANDLE, PERMISSION_DENIED
   */
  static open(
    exporter: ProcessIdentity,
    { fd, fileNumber }: MarkLocation,
    what: string,
  ): ImportedMarks {
    const file = {
      kind: "generations",
      ...exporter,
      fd,
      fileNumber,
      byteLength: FILE_BYTES,
    } as const;
    const opened = openExporterFile(file, "read", what);
    try {
      return new ImportedMarks(Mapping.shared(opened, FILE_BYTES, "read"));
    } finally {
      opened.close();
    }
  }

  at({ slot }: MarkLocation, generation: number): ImportedMark {
    return new ImportedMark(this.#words, slot, generation);
  }

  /** Call it only when none of these marks is used any more. */
  close(): void {
    this.#mapping.close();
  }
}

export class ImportedMark {
  readonly generation: number;
  readonly #words: BigInt64Array;
  readonly #slot: number;
  readonly #wanted: bigint;

  constructor(words: BigInt64Array, slot: number, generation: number) {
    this.generation = generation;
    this.#words = words;
    this.#slot = slot;
    this.#wanted = BigInt(generation);
  }

  /**
   * Whether the exporter has freed or closed the export. A process that dies leaves its marks as
   * they were.
   */
  get ended(): boolean {
    // SYNC: pairs with the stores in `ExportMarks.add`.
    return Atomics.load(this.#words, this.#slot) !== this.#wanted;
  }

  /** @throws STALE_HANDLE if the exporter has freed or closed it */
  refuseEnded(attempt: string, cause?: unknown): void {
    if (!this.ended) return;
    const sentence = `Cannot ${attempt}: its exporter has freed or closed it since it was exported`;
    throw new CudaIpcError("STALE_HANDLE", sentence, cause === undefined ? {} : { cause });
  }

  /**
   * Opens the marked export, and never a later one with the same handle.
   * @throws STALE_HANDLE, and the errors of `open`
   */
  guard<T>(attempt: string, open: () => T, close: (opened: T) => void): T {
    this.refuseEnded(attempt);
    return acquireIn((scope) => {
      let opened: T;
      try {
        opened = scope.own(open(), close);
      } catch (error) {
        this.refuseEnded(attempt, error);
        throw error;
      }
      // Checked again: the export may have been freed meanwhile, and its handle reused.
      this.refuseEnded(attempt);
      return opened;
    });
  }
}

function wordsOf(mapping: Mapping): BigInt64Array {
  // SAFETY: the words are used only by marks whose owners keep the mapping.
  return new BigInt64Array(mapping.view(0, FILE_BYTES).buffer);
}
