/** The streams of the host driver, and what can be enqueued on them. How a stream works is in host-stream.ts. */
import { checkInteger } from "../../base/bytes.js";
import type { DevicePointer, DriverStream, FillPattern, WordOperation, WordValue } from "../gpu-driver.js";
import { checkBatch, checkFill, checkWordAddress } from "../operation-checks.js";
import type { HostMemories } from "./host-memory.js";
import { copy, fill, waitWord, writeWord } from "./host-operations.js";
import type { HostSession } from "./host-session.js";
import { HostStream } from "./host-stream.js";

export class HostStreams {
  readonly #session: HostSession;
  readonly #memories: HostMemories;
  readonly #streams = new Set<HostStream>();

  constructor(session: HostSession, memories: HostMemories) {
    this.#session = session;
    this.#memories = memories;
  }

  create(ordinal: number): DriverStream {
    this.#session.use(ordinal);
    const stream = new HostStream();
    this.#streams.add(stream);
    return stream;
  }

  /** Work that was not done yet, a pending wait included, is given up. */
  destroy(stream: DriverStream): void {
    const queue = this.queueOf(stream);
    this.#streams.delete(queue);
    queue.destroy();
  }

  isIdle(stream: DriverStream): boolean {
    return this.queueOf(stream).isIdle();
  }

  copy(stream: DriverStream, to: bigint, from: bigint, byteLength: number): void {
    const queue = this.queueOf(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    this.#memories.check(to, byteLength, "read-write");
    this.#memories.check(from, byteLength, "read");
    queue.enqueue(copy(this.#memories, to, from, byteLength));
  }

  fill(stream: DriverStream, to: DevicePointer, pattern: FillPattern, count: number): void {
    const queue = this.queueOf(stream);
    checkFill(to, pattern, count);
    if (count === 0) return;
    this.#memories.check(to, count * pattern.elementBytes, "read-write");
    queue.enqueue(fill(this.#memories, to, pattern, count));
  }

  waitWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void {
    const queue = this.queueOf(stream);
    checkWordAddress(pointer);
    this.#memories.check(pointer, 8, "read");
    queue.enqueue(waitWord(this.#memories, pointer, BigInt(value)));
  }

  writeWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void {
    const queue = this.queueOf(stream);
    checkWordAddress(pointer);
    this.#memories.check(pointer, 8, "read-write");
    queue.enqueue(writeWord(this.#memories, pointer, BigInt(value)));
  }

  /** All are checked before the first is enqueued, as one call of a driver does. */
  batchWords(stream: DriverStream, operations: readonly WordOperation[]): void {
    const queue = this.queueOf(stream);
    checkBatch(operations);
    for (const { kind, pointer } of operations) {
      checkWordAddress(pointer);
      this.#memories.check(pointer, 8, kind === "wait" ? "read" : "read-write");
    }
    for (const { kind, pointer, value } of operations) {
      queue.enqueue((kind === "wait" ? waitWord : writeWord)(this.#memories, pointer, value));
    }
  }

  /** @throws CLOSED, TypeError for a stream of another driver */
  queueOf(stream: DriverStream): HostStream {
    this.#session.use();
    if (!(stream instanceof HostStream)) throw new TypeError("Cannot use a stream of another driver");
    return stream;
  }

  close(): void {
    for (const stream of this.#streams) stream.abandon();
    this.#streams.clear();
  }
}
