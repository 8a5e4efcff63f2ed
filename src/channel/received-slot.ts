/** A message that a reader holds in place. Its data stays unchanged until it is released. */
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { optionsOf } from "../base/option-checks.js";
import { releaseAll } from "../base/scope.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import { aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/order/stream.js";
import { flags } from "../ring/channel-layout.js";
import type { ControlWords } from "../ring/control-words.js";
import type { RingReader, TakenMessage } from "../ring/ring-reader.js";
import { points } from "./channel-diagnostics.js";
import { decodeJson, type JsonValue } from "./message-meta.js";
import type { OrderedTimeline } from "./ordered-timeline.js";
import { type SlotMemory, shapeOfMessage } from "./slot-memory.js";

export interface ReleaseOptions {
  /** The slot is free when this stream has finished the work it was given by now. */
  readonly stream?: Stream | undefined;
}

const checkRelease = optionsOf<ReleaseOptions>("release()", { stream: aStream });

const BY_READER: ReleaseOptions = {};

export class ReceivedSlot<D extends DType = DType> {
  readonly #taken: TakenMessage;
  readonly #returns: SlotReturns;
  readonly #memory: SlotMemory<D>;
  #array: DeviceArray<D> | undefined;
  #open = true;

  /** Use `reader.next()`. */
  constructor(returns: SlotReturns, memory: SlotMemory<D>, taken: TakenMessage) {
    this.#taken = taken;
    this.#returns = returns;
    this.#memory = memory;
  }

  get open(): boolean {
    return this.#open && this.#returns.open;
  }

  /** Counts the messages of the channel, without dropped ones. */
  get sequence(): number {
    return this.#taken.sequence;
  }

  /** When it was committed, in milliseconds since 1970, by the writer's clock. */
  get timestampMs(): number {
    return this.#taken.timestampMs;
  }

  /** Messages that this reader lost since the one before, or since it began. */
  get missed(): number {
    return this.#taken.missed;
  }

  get byteLength(): number {
    return this.#taken.byteLength;
  }

  /**
   * The message in place, as an array. It closes with the slot, so await its reads before you
   * release.
   * @throws CHANNEL_CORRUPT if its shape contradicts its bytes
   */
  get array(): DeviceArray<D> {
    this.#checkOpen("use");
    if (this.#array === undefined) {
      this.#array = this.#memory.array(this.#taken.slot, this.#shape());
      this.#returns.arraysInUse.add(this.#array);
    }
    return this.#array;
  }

  /**
   * The message in place, as bytes, on the host device. After the release they belong to another
   * message.
   * @throws UNSUPPORTED on a GPU
   */
  get bytes(): Uint8Array {
    this.#checkOpen("use");
    return this.#memory.bytes(this.#taken.slot, this.byteLength);
  }

  /** A copy of the meta bytes; empty if the message has none. */
  get meta(): Uint8Array {
    this.#checkOpen("use");
    return this.#returns.control.meta(this.#taken.slot, this.#taken.metaBytes).slice();
  }

  /** Whether the writer says that the meta is JSON. @internal */
  get metaIsJson(): boolean {
    return (this.#taken.flags & flags.json) !== 0;
  }

  /**
   * The meta as the JSON value that was sent; undefined if it is bytes or missing.
   * @throws CHANNEL_CORRUPT
   */
  get json(): JsonValue | undefined {
    this.#checkOpen("use");
    if (!this.metaIsJson) return undefined;
    return decodeJson(this.#returns.label, this.meta);
  }

  /**
   * Gives the slot back: at once, or when the stream (given here, or the reader's) has finished its
   * work so far. A second call does nothing.
   * @throws what the stream throws, such as DEVICE_LOST. Each call of the reader then retries, and
   * the slot goes back with the reader at the latest.
   */
  release(options: ReleaseOptions = BY_READER): void {
    if (!this.#open) return;
    if (options !== BY_READER) checkRelease(options);
    const { stream = this.#returns.stream } = options;
    this.#open = false;
    if (this.#array !== undefined) {
      this.#returns.arraysInUse.delete(this.#array);
      this.#array.close();
    }
    if (points.release.hasSubscribers) {
      const { sequence } = this.#taken;
      points.release.publish({ name: this.#returns.label, sequence, slot: this });
    }
    this.#returns.release(this.#taken, stream);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #shape(): readonly number[] | undefined {
    const { facts } = this.#memory;
    const shape =
      (this.#taken.flags & flags.shaped) === 0
        ? undefined
        : this.#returns.control.shape(this.#taken.slot);
    const wanted = shapeOfMessage(facts, this.byteLength, shape);
    if (wanted !== "contradiction") return wanted;
    const claim = `shape [${shape?.join(", ") ?? ""}] of ${facts.dtype}`;
    const found = `a message of ${this.byteLength} bytes claims ${claim}`;
    throw new CudaIpcError(
      "CHANNEL_CORRUPT",
      `Cannot read channel "${this.#returns.label}": ${found}`,
    );
  }

  #checkOpen(verb: string): void {
    // A closed reader has unmapped the words of the message.
    if (this.#open && this.#returns.open) return;
    const found = this.#open ? "its reader was closed" : "it was released";
    throw new CudaIpcError(
      "CLOSED",
      `Cannot ${verb} a slot of channel "${this.#returns.label}": ${found}`,
    );
  }
}

export interface SlotReturnsOptions {
  readonly label: string;
  readonly control: ControlWords;
  /** The reader's stream: it gives slots back if the caller names none. */
  readonly stream: Stream | undefined;
  /** Called when a stream refuses, so that a waiting `next()` learns of it. */
  readonly onRefused: () => void;
}

/**
 * Gives the slots of one reader back. If a stream refuses, later slots cannot go back either. Each
 * call of the reader then retries, and throws while the stream refuses.
 */
export class SlotReturns {
  readonly label: string;
  readonly control: ControlWords;
  readonly stream: Stream | undefined;
  /** They close with the reader. */
  readonly arraysInUse = new Set<{ close(): void }>();
  readonly #ring: RingReader;
  readonly #done: OrderedTimeline;
  readonly #onRefused: () => void;
  /** Streams that have given slots back. */
  readonly #streams = new Set<Stream>();
  #isRefused = false;
  #open = true;

  /** @param done the timeline of what the reader's streams have given back */
  constructor(
    ring: RingReader,
    done: OrderedTimeline,
    { label, control, stream, onRefused }: SlotReturnsOptions,
  ) {
    this.label = label;
    this.control = control;
    this.stream = stream;
    this.#ring = ring;
    this.#done = done;
    this.#onRefused = onRefused;
  }

  get open(): boolean {
    return this.#open;
  }

  /** A stream has refused, and no retry has succeeded since. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** The slot of a message that was taken. */
  receive<D extends DType>(memory: SlotMemory<D>, taken: TakenMessage): ReceivedSlot<D> {
    const slot = new ReceivedSlot(this, memory, taken);
    if (points.receive.hasSubscribers) {
      const { sequence, byteLength, missed } = taken;
      points.receive.publish({ name: this.label, sequence, byteLength, missed, slot });
    }
    return slot;
  }

  /** @throws what the stream throws */
  release(taken: TakenMessage, stream: Stream | undefined): void {
    // Closing the reader has given everything back.
    if (!this.#open) return;
    if (stream === undefined) {
      this.#ring.release(taken);
      return;
    }
    this.#keep(stream);
    this.#ring.release(taken, (value) => this.#signal(stream, value));
  }

  /**
   * Retries a stream that has refused.
   * @throws with the stream's error code
   */
  retry(): void {
    if (!this.#isRefused) return;
    try {
      this.#ring.retryGiveBack();
      this.#isRefused = false;
    } catch (cause) {
      if (!(cause instanceof CudaIpcError)) throw cause;
      const found =
        "a stream cannot release a slot, nor the slots after it. Close the reader. The cause: " +
        cause.message;
      throw new CudaIpcError(cause.code, `Cannot read channel "${this.label}": ${found}`, {
        cause,
      });
    }
  }

  /** Gives everything back. Slots that streams still use follow when the streams are done. */
  close(): void {
    this.#open = false;
    releaseAll([
      ...[...this.arraysInUse].map((array) => () => array.close()),
      () => this.#giveAll(),
      () => this.#done.close(),
    ]);
  }

  #giveAll(): void {
    // After a refusal nothing more is signalled: a later value would say that the refused work is
    // done. The caller has seen the error.
    let isSignalled = false;
    try {
      if (this.#isRefused) return;
      this.#ring.signalReleased();
      // The reader's own stream may still work on slots that are held.
      if (this.stream?.open && this.#ring.heldCount > 0)
        this.#done.signal(this.stream, this.#ring.position);
      isSignalled = true;
    } catch (error) {
      // The streams of a lost device report the loss themselves.
      if (!hasCode(error, "DEVICE_LOST")) throw error;
    } finally {
      if (!isSignalled) this.#awaitStreams();
    }
  }

  /** Gives everything back at once when all streams are idle. */
  #awaitStreams(): void {
    if (this.stream !== undefined) this.#streams.add(this.stream);
    for (const stream of this.#streams) this.#done.endAfter(stream);
  }

  #keep(stream: Stream): void {
    if (this.#streams.has(stream)) return;
    // There may be a new stream for each message. Closed ones have finished their work.
    for (const known of this.#streams) if (!known.open) this.#streams.delete(known);
    this.#streams.add(stream);
  }

  #signal(stream: Stream, value: number): void {
    try {
      this.#done.signal(stream, value);
    } catch (error) {
      this.#isRefused = true;
      this.#onRefused();
      throw error;
    }
  }
}
