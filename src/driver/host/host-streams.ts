/** The streams of the host driver, and what can be enqueued. How a stream works: host-stream.ts. */
import { checkInteger } from "../../base/bytes.js";
import { checkBatch, checkFill, checkWordAddress } from "../common/argument-checks.js";
import type { DevicePointer } from "../memory-calls.js";
import type { DriverStream, StreamCalls, WordOperation } from "../stream-calls.js";
import type { HostAddresses } from "./host-addresses.js";
import { copy, fill, waitWord, writeWord } from "./host-operations.js";
import type { HostSession } from "./host-session.js";
import { HostStream } from "./host-stream.js";

export class HostStreams {
  readonly #session: HostSession;
  readonly #streams = new Set<HostStream>();

  constructor(session: HostSession) {
    this.#session = session;
  }

  create(ordinal: number): DriverStream {
    this.#session.use(ordinal);
    const stream = new HostStream();
    this.#streams.add(stream);
    return stream;
  }

  /** Drops work that is not done yet, a pending wait included. */
  destroy(stream: DriverStream): void {
    const queue = this.queueOf(stream);
    this.#streams.delete(queue);
    queue.destroy();
  }

  /** @throws CLOSED, TypeError for a stream of another driver */
  queueOf(stream: DriverStream): HostStream {
    this.#session.use();
    if (!(stream instanceof HostStream))
      throw new TypeError("Cannot use a stream of another driver");
    return stream;
  }

  close(): void {
    for (const stream of this.#streams) stream.abandon();
    this.#streams.clear();
  }
}

export function hostStreamCalls(
  session: HostSession,
  addresses: HostAddresses,
  streams: HostStreams,
): StreamCalls {
  function enqueueCopy(
    stream: DriverStream,
    to: DevicePointer,
    from: DevicePointer,
    byteLength: number,
  ): void {
    const queue = streams.queueOf(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    addresses.check(to, byteLength, "read-write");
    addresses.check(from, byteLength, "read");
    queue.enqueue(copy(addresses, to, from, byteLength));
  }

  function checkWord(kind: WordOperation["kind"], pointer: DevicePointer): void {
    checkWordAddress(pointer);
    addresses.check(pointer, 8, kind === "wait" ? "read" : "read-write");
  }

  return {
    createStream: (ordinal) => streams.create(ordinal),
    destroyStream: (stream) => streams.destroy(stream),
    isIdle: (stream) => streams.queueOf(stream).isIdle(),

    copyToDevice: enqueueCopy,
    copyToHost: enqueueCopy,
    copyOnDevice: enqueueCopy,
    copyBetweenDevices(stream, to, from, byteLength) {
      session.use(to.ordinal);
      session.use(from.ordinal);
      enqueueCopy(stream, to.pointer, from.pointer, byteLength);
    },

    fill(stream, to, pattern, count) {
      const queue = streams.queueOf(stream);
      checkFill(to, pattern, count);
      if (count === 0) return;
      addresses.check(to, count * pattern.elementBytes, "read-write");
      queue.enqueue(fill(addresses, to, pattern, count));
    },

    waitWord(stream, pointer, value) {
      const queue = streams.queueOf(stream);
      checkWord("wait", pointer);
      queue.enqueue(waitWord(addresses, pointer, BigInt(value)));
    },

    writeWord(stream, pointer, value) {
      const queue = streams.queueOf(stream);
      checkWord("write", pointer);
      queue.enqueue(writeWord(addresses, pointer, BigInt(value)));
    },

    /** Checks all before it enqueues the first, as one call of a GPU driver does. */
    batchWords(stream, operations) {
      const queue = streams.queueOf(stream);
      checkBatch(operations);
      for (const { kind, pointer } of operations) checkWord(kind, pointer);
      for (const { kind, pointer, value } of operations)
        queue.enqueue((kind === "wait" ? waitWord : writeWord)(addresses, pointer, value));
    },
  };
}
