/**
 * The events of a host driver, as words in a memory file that importers map read-only.
 *
 *   A slot of 64 bytes:
 *   0            8          16                                                   64
 *   +------------+----------+--------+--------+--------+--------+--------+--------+
 *   | generation | recorded | done 0 | done 1 | done 2 | done 3 | done 4 | done 5 |
 *   +------------+----------+--------+--------+--------+--------+--------+--------+
 *
 * `recorded` counts the enqueued recordings. Recording n is done when word n % 6 has reached n. One
 * word would not do: an event recorded on several streams is done when its last recording is, even
 * if earlier ones still wait. A recording completes only after the one 6 before it. If the
 * generation of a slot differs from the handle's, the slot now belongs to another event.
 */
import { CudaIpcError } from "../../base/errors.js";
import { nextGeneration } from "../../base/generation.js";
import { limits } from "../../base/limits.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { createExporterFile, openExporterFile } from "../../os/exporter-file.js";
import { Mapping } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { openProcess, ownIdentity } from "../../os/process-identity.js";
import { ProcessWatch } from "../../os/process-watch.js";
import { encodeHostHandle, type HostHandle } from "./host-handle.js";

const SLOT_WORDS = 8;
const GENERATION = 0;
const RECORDED = 1;
const DONE = 2;
const DONE_WORDS = 6;
const ARENA_BYTES = limits.hostEventsMax * SLOT_WORDS * 8;

interface ArenaFile {
  readonly fd: OwnedFd;
  readonly number: number;
}

export class EventArena {
  readonly #mapping: Mapping;
  readonly #words: BigInt64Array;
  /** The exporter's file, open while importers may come; undefined in an importer. */
  readonly #file: ArenaFile | undefined;
  /** In an importer, tells whether the exporter still runs. */
  readonly #exporter: ProcessWatch | undefined;
  readonly #free: number[] = [];
  #users = 0;

  private constructor(
    mapping: Mapping,
    file: ArenaFile | undefined,
    exporter: ProcessWatch | undefined,
  ) {
    this.#mapping = mapping;
    // SAFETY: only events that are not destroyed use it, and the mapping lives until the last of
    // them.
    const bytes = mapping.view(0, ARENA_BYTES);
    this.#words = new BigInt64Array(bytes.buffer, bytes.byteOffset, ARENA_BYTES / 8);
    this.#file = file;
    this.#exporter = exporter;
    for (let slot = limits.hostEventsMax - 1; slot >= 0; slot -= 1) this.#free.push(slot);
  }

  static create(): EventArena {
    return acquireIn((scope) => {
      const number = nextGeneration();
      const fd = scope.own(createExporterFile("event", number, ARENA_BYTES), (it) => it.close());
      const mapping = scope.own(Mapping.shared(fd, ARENA_BYTES, "read-write"), (it) => it.close());
      return new EventArena(mapping, { fd, number }, undefined);
    });
  }

  /** @throws what `openExporterFile` throws */
  static import(handle: HostHandle): EventArena {
    if (handle.byteLength !== ARENA_BYTES) {
      const uses = `its exporter uses ${handle.byteLength} bytes for events`;
      const found = `${uses}, wanted ${ARENA_BYTES}`;
      throw new CudaIpcError(
        "INVALID_HANDLE",
        `Cannot import an event of the host device: ${found}`,
      );
    }
    return acquireIn((scope) => {
      const fd = scope.own(openExporterFile(handle, "read", "an event of the host device"), (it) =>
        it.close(),
      );
      const pidfd = openProcess(handle);
      if (pidfd === undefined) {
        const found = `process ${handle.pid} ended`;
        throw new CudaIpcError(
          "STALE_HANDLE",
          `Cannot import an event of the host device: ${found}`,
        );
      }
      const exporter = scope.own(new ProcessWatch(pidfd, () => {}), (it) => it.close());
      const mapping = scope.own(Mapping.shared(fd, ARENA_BYTES, "read"), (it) => it.close());
      fd.close();
      return new EventArena(mapping, undefined, exporter);
    });
  }

  get exporterEnded(): boolean {
    return this.#exporter?.exited === true;
  }

  /** Counts an event that uses this arena. The event calls `release` once. */
  retain(): void {
    this.#users += 1;
  }

  /** Closes the arena after the last event, and returns true then. */
  release(): boolean {
    this.#users -= 1;
    if (this.#users > 0) return false;
    releaseAll([
      () => this.#exporter?.close(),
      () => this.#file?.fd.close(),
      () => this.#mapping.close(),
    ]);
    return true;
  }

  /** Claims a slot for a new event. @throws LIMIT_EXCEEDED */
  claim(): { readonly slot: number; readonly generation: number } {
    const slot = this.#free.pop();
    if (slot === undefined) {
      const found = `there are ${limits.hostEventsMax}, the limit (hostEventsMax)`;
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot create an event of the host device: ${found}`,
      );
    }
    const generation = nextGeneration();
    for (let word = RECORDED; word < SLOT_WORDS; word += 1)
      Atomics.store(this.#words, slot * SLOT_WORDS + word, 0n);
    // SYNC: last, so that a reader of the new generation sees no recordings of the previous event.
    // Pairs with `generationAt`.
    Atomics.store(this.#words, slot * SLOT_WORDS + GENERATION, BigInt(generation));
    return { slot, generation };
  }

  unclaim(slot: number): void {
    Atomics.store(this.#words, slot * SLOT_WORDS + GENERATION, 0n);
    this.#free.push(slot);
  }

  generationAt(slot: number): number {
    // SYNC: pairs with the stores in `claim` and `unclaim`.
    return Number(Atomics.load(this.#words, slot * SLOT_WORDS + GENERATION));
  }

  recordedAt(slot: number): bigint {
    // SYNC: pairs with the store in `countRecording`.
    return Atomics.load(this.#words, slot * SLOT_WORDS + RECORDED);
  }

  /** Counts a recording that is being enqueued, and returns its number, from 1. */
  countRecording(slot: number): bigint {
    return Atomics.add(this.#words, slot * SLOT_WORDS + RECORDED, 1n) + 1n;
  }

  /** Marks a recording as done. Returns false while an earlier one still needs its word. */
  tryFinish(slot: number, recording: bigint): boolean {
    const word = doneWord(slot, recording);
    if (Atomics.load(this.#words, word) < recording - BigInt(DONE_WORDS)) return false;
    // SYNC: a reader that sees this sees everything the recording stream did before. Pairs with the
    // load in `isDone`.
    Atomics.store(this.#words, word, recording);
    return true;
  }

  /** Whether a recording is done. Number 0 (no recording) always is. */
  isDone(slot: number, recording: bigint): boolean {
    // SYNC: pairs with the store in `tryFinish`.
    return recording === 0n || Atomics.load(this.#words, doneWord(slot, recording)) >= recording;
  }

  handle(slot: number, generation: number): Uint8Array {
    const file = this.#file;
    if (file === undefined)
      throw new CudaIpcError("UNSUPPORTED", "Cannot export an event of host: it was imported");
    const location = { fd: file.fd.number, fileNumber: file.number, byteLength: ARENA_BYTES };
    return encodeHostHandle({ kind: "event", ...location, ...ownIdentity(), slot, generation });
  }
}

function doneWord(slot: number, recording: bigint): number {
  return slot * SLOT_WORDS + DONE + Number(recording % BigInt(DONE_WORDS));
}
