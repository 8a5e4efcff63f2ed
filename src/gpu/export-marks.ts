/**
 * What a device exported and has not given up since, as words in a memory file that importers map for reading.
 *
 *     slot   0            1            2
 *           +------------+------------+-----
 *           | generation | generation | ...      of what has the slot; 0 for nothing
 *           +------------+------------+-----
 *
 * WHY: a driver gives the handle of what was freed to what comes after it, and opens the old one without an error (measured).
 */
import { CudaIpcError } from "../base/errors.js";
import { nextGeneration } from "../base/generation.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { createExporterFile, openExporterFile } from "../os/exporter-file.js";
import { Mapping } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { ProcessIdentity } from "../os/process-identity.js";
import type { MarkPlace } from "../wire/ipc-documents.js";

const FILE_BYTES = limits.exportsPerDeviceMax * 8;

/** That something exported is still there. Ended by its owner, before what it stands for is freed. */
export interface ExportMark {
  readonly place: MarkPlace;
  /** Larger than that of whatever had the same handle before. */
  readonly generation: number;
  end(): void;
}

interface OwnFile {
  readonly number: number;
  /** Open for as long as importers may come. */
  readonly fd: OwnedFd;
  readonly mapping: Mapping;
  readonly words: BigInt64Array;
}

/** The marks of one device, which closes them when nothing of it is left. */
export class ExportMarks {
  /** From the first mark on. */
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
      // SYNC: before the export is freed, so that whoever finds the mark after opening did not open what came later. Pairs with `ended`.
      Atomics.store(words, slot, 0n);
      this.#free.push(slot);
    };
    return { place: { fd: fd.number, fileNumber: number, slot }, generation, end };
  }

  /** All marks have ended. */
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

  /** @throws STALE_HANDLE where process or device are gone, INVALID_HANDLE, PERMISSION_DENIED */
  static open(exporter: ProcessIdentity, { fd, fileNumber }: MarkPlace, what: string): ImportedMarks {
    const file = { kind: "generations", ...exporter, fd, fileNumber, byteLength: FILE_BYTES } as const;
    const opened = openExporterFile(file, "read", what);
    try {
      return new ImportedMarks(Mapping.shared(opened, FILE_BYTES, "read"));
    } finally {
      opened.close();
    }
  }

  at({ slot }: MarkPlace, generation: number): ImportedMark {
    return new ImportedMark(this.#words, slot, generation);
  }

  /** No mark of these is looked at any more. */
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

  /** Whether the exporter has given up what it exported. A process that ended otherwise leaves its marks as they were. */
  get ended(): boolean {
    // SYNC: pairs with the stores in `ExportMarks.add`.
    return Atomics.load(this.#words, this.#slot) !== this.#wanted;
  }

  /** @throws STALE_HANDLE where the exporter has given it up */
  refuseEnded(attempt: string, cause?: unknown): void {
    if (!this.ended) return;
    const sentence = `Cannot ${attempt}: its exporter has freed or closed it since it was exported`;
    throw new CudaIpcError("STALE_HANDLE", sentence, cause === undefined ? {} : { cause });
  }

  /** Opens what the mark is of, and nothing that came after it. @throws STALE_HANDLE, and what `open` throws */
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
      // WHY again: it may have been freed meanwhile, and its handle given to something else.
      this.refuseEnded(attempt);
      return opened;
    });
  }
}

function wordsOf(mapping: Mapping): BigInt64Array {
  // SAFETY: looked at only for marks whose owners keep the mapping.
  return new BigInt64Array(mapping.view(0, FILE_BYTES).buffer);
}
