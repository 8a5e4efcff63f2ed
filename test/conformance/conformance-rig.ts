/**
 * The rig of every test of the suite: a counting driver, resources that are released at the end of
 * each test, and waits with a deadline. A test fails if anything is left.
 */
import assert from "node:assert/strict";
import { roundUp } from "../../src/base/bytes.js";
import type { DriverEvent } from "../../src/driver/event-calls.js";
import type {
  DevicePointer,
  DriverMemory,
  DriverStream,
  GpuDriver,
  StagingMemory,
  WordValue,
} from "../../src/driver/gpu-driver.js";
import { LEGACY_GRANULARITY_BYTES } from "../../src/driver/legacy-calls.js";
import type {
  PendingReduction,
  Reduction,
  ReductionOf,
  ReductionResults,
} from "../../src/driver/operation-calls.js";
import { type Access, type MapAccess, Mapping } from "../../src/os/mapping.js";
import { createMemoryFile, reopenReadOnly } from "../../src/os/memory-file.js";
import type { OwnedFd } from "../../src/os/owned-fd.js";
import {
  type CountingDriver,
  createCountingDriver,
  type LiveCounts,
} from "../support/live-counts.js";

const DEADLINE_MS = 60_000;
const WORDS_BYTES = 4096;

export interface Buffer {
  readonly memory: DriverMemory;
  readonly pointer: DevicePointer;
  readonly byteLength: number;
}

export interface Words {
  readonly fd: OwnedFd;
  /** The words, for the CPU of this process. */
  readonly cpu: BigInt64Array;
  /** The address of word 0 in this process. */
  readonly address: bigint;
  /** The address of word 0 for streams. */
  readonly pointer: DevicePointer;
}

export class ConformanceRig {
  readonly #counting: CountingDriver;
  readonly #before: LiveCounts;
  readonly #cleanups: (() => void | Promise<void>)[] = [];
  readonly #waits: (() => void | Promise<void>)[] = [];
  readonly #scratch = new Map<number, Buffer>();
  #sharedStream: DriverStream | undefined;
  #staging: StagingMemory | undefined;

  constructor(driver: GpuDriver) {
    this.#counting = createCountingDriver(driver);
    this.#before = this.counts();
  }

  get driver(): GpuDriver {
    return this.#counting.driver;
  }

  get kind(): string {
    return this.driver.describeDevice(0).reference.kind;
  }

  get granularity(): number {
    return this.driver.describeDevice(0).granularityBytes;
  }

  counts(): LiveCounts {
    return this.#counting.counts();
  }

  /** Releases what the test acquired, newest first, and compares the counts. */
  async end(): Promise<void> {
    // Waits end first, because a driver may block in a release while one is pending.
    for (const cleanup of [...this.#waits, ...this.#cleanups.reverse()]) await cleanup();
    assert.deepEqual(this.counts(), this.#before, "something was left over");
  }

  own<T>(value: T, release: (value: T) => void | Promise<void>): T {
    this.#cleanups.push(() => release(value));
    return value;
  }

  stream(): DriverStream {
    return this.own(this.driver.createStream(0), (it) => this.driver.destroyStream(it));
  }

  memory(byteLength: number): DriverMemory {
    const memory = this.driver.createMemory(0, roundUp(byteLength, this.granularity));
    return this.own(memory, (it) => this.driver.releaseMemory(it));
  }

  map(memory: DriverMemory, access: MapAccess = "read-write"): DevicePointer {
    return this.own(this.driver.mapMemory(memory, access), (it) => this.driver.unmapMemory(0, it));
  }

  buffer(byteLength: number): Buffer {
    const memory = this.memory(byteLength);
    return { memory, pointer: this.map(memory), byteLength: memory.byteLength };
  }

  exported(memory: DriverMemory): OwnedFd {
    return this.own(this.driver.exportMemory(memory), (it) => it.close());
  }

  imported(fd: OwnedFd, byteLength: number): DriverMemory {
    return this.own(this.driver.importMemory(0, fd, byteLength), (it) =>
      this.driver.releaseMemory(it),
    );
  }

  staging(byteLength: number): StagingMemory {
    return this.own(this.driver.allocateStaging(0, byteLength), (it) =>
      this.driver.freeStaging(it),
    );
  }

  event(): DriverEvent {
    return this.own(this.driver.createEvent(0), (it) => this.driver.destroyEvent(it));
  }

  importedEvent(handle: Uint8Array): DriverEvent {
    return this.own(this.driver.importEvent(0, handle), (it) => this.driver.destroyEvent(it));
  }

  legacy(byteLength = LEGACY_GRANULARITY_BYTES): DevicePointer {
    return this.own(this.driver.allocateLegacy(0, byteLength), (it) =>
      this.driver.freeLegacy(0, it),
    );
  }

  /** Registers shared words in a memory file. With `read`, streams get a read-only mapping. */
  words(access: Access = "read-write"): Words {
    const fd = this.own(createMemoryFile("words", WORDS_BYTES), (it) => it.close());
    const writable = this.own(Mapping.shared(fd, WORDS_BYTES, "read-write"), (it) => it.close());
    const cpu = new BigInt64Array(writable.view(0, WORDS_BYTES).buffer);
    const mapping = access === "read" ? this.#readOnlyMapping(fd) : writable;
    const pointer = this.driver.registerHostMemory(0, mapping.address, WORDS_BYTES, access);
    this.own(mapping, (it) => this.driver.unregisterHostMemory(0, it.address));
    return { fd, cpu, address: mapping.address, pointer };
  }

  /** Enqueues a wait, and ends it with the test if the test fails. */
  wait(stream: DriverStream, words: Words, index: number, value: bigint): void {
    this.waitOn(stream, words.pointer + BigInt(8 * index), value, () =>
      Atomics.store(words.cpu, index, value),
    );
  }

  waitOn(
    stream: DriverStream,
    pointer: DevicePointer,
    value: WordValue,
    release: () => void,
  ): void {
    this.driver.waitWord(stream, pointer, value);
    this.#waits.push(async () => {
      release();
      await this.done(stream);
    });
  }

  async done(stream: DriverStream): Promise<void> {
    await until("the stream is idle", () => this.driver.isIdle(stream));
  }

  async write(pointer: DevicePointer, bytes: Uint8Array): Promise<void> {
    const staging = this.staging(bytes.byteLength);
    staging.bytes.set(bytes);
    const stream = this.stream();
    this.driver.copyToDevice(stream, pointer, staging.address, bytes.byteLength);
    await this.done(stream);
  }

  async read(pointer: DevicePointer, byteLength: number): Promise<Uint8Array> {
    const staging = this.staging(byteLength);
    const stream = this.stream();
    this.driver.copyToHost(stream, staging.address, pointer, byteLength);
    await this.done(stream);
    return Uint8Array.from(staging.bytes);
  }

  /** Memory that rounds of a test reuse, by number. It is replaced if it is too small. */
  scratch(byteLength: number, number: number): Buffer {
    let found = this.#scratch.get(number);
    if (found === undefined || found.byteLength < byteLength) {
      found = this.buffer(byteLength);
      this.#scratch.set(number, found);
    }
    return found;
  }

  sharedStream(): DriverStream {
    this.#sharedStream ??= this.stream();
    return this.#sharedStream;
  }

  /** Like `write` and `read`, through staging memory that the test keeps. */
  async put(pointer: DevicePointer, bytes: Uint8Array): Promise<void> {
    if (bytes.byteLength === 0) return;
    const staging = this.#sharedStaging(bytes.byteLength);
    staging.bytes.set(bytes);
    this.driver.copyToDevice(this.sharedStream(), pointer, staging.address, bytes.byteLength);
    await this.done(this.sharedStream());
  }

  async get(pointer: DevicePointer, byteLength: number): Promise<Uint8Array> {
    if (byteLength === 0) return new Uint8Array(0);
    const staging = this.#sharedStaging(byteLength);
    this.driver.copyToHost(this.sharedStream(), staging.address, pointer, byteLength);
    await this.done(this.sharedStream());
    return staging.bytes.slice(0, byteLength);
  }

  enqueued<R extends Reduction>(reduction: R): PendingReduction<ReductionResults[R["kind"]]> {
    return this.driver.enqueueReduction<R["kind"]>(
      this.sharedStream(),
      reduction as unknown as ReductionOf<R["kind"]>,
    );
  }

  /** Runs one reduction and returns its result. */
  async reduced<R extends Reduction>(reduction: R): Promise<ReductionResults[R["kind"]]> {
    const pending = this.enqueued(reduction);
    await this.done(this.sharedStream());
    return pending.result();
  }

  #sharedStaging(byteLength: number): StagingMemory {
    if (this.#staging === undefined || this.#staging.byteLength < byteLength)
      this.#staging = this.staging(byteLength);
    return this.#staging;
  }

  #readOnlyMapping(fd: OwnedFd): Mapping {
    const readOnly = this.own(reopenReadOnly(fd), (it) => it.close());
    return this.own(Mapping.shared(readOnly, WORDS_BYTES, "read"), (it) => it.close());
  }
}

/** Polls, with turns of the event loop in between. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const end = performance.now() + DEADLINE_MS;
  while (!condition()) {
    assert.ok(performance.now() < end, `not so within ${DEADLINE_MS} ms: ${what}`);
    await turn();
  }
}

/** Some turns of the event loop, enough for work on the host device that wrongly does not wait. */
export async function turns(): Promise<void> {
  for (let i = 0; i < 100; i += 1) await turn();
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Random bytes, different on every call. */
export function noise(byteLength: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  let state = seed * 2654435761 + 1;
  for (let i = 0; i < byteLength; i += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
