/** A message that a reader holds in place. Its data stays unchanged until it is released. */
import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { optionsOf } from "../base/option-checks.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import { aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/order/stream.js";
import { flags } from "../ring/channel-layout.js";
import type { TakenMessage } from "../ring/ring-reader.js";
import { points } from "./channel-diagnostics.js";
import { decodeJson, type JsonValue } from "./message-meta.js";
import { type SlotMemory, shapeOfMessage } from "./slot-memory.js";
import type { SlotReturns } from "./slot-returns.js";

export interface ReleaseOptions {
  /** The slot is free when this stream has finished the work it was given by now. */
  readonly stream?: Stream | undefined;
}

const checkRelease = optionsOf<ReleaseOptions>("release()", { stream: aStream });

const BY_READER: ReleaseOptions = {};

/** Copied from the slot of a message without data. The slot itself was given back at once. */
interface Kept {
  readonly meta: Uint8Array;
  readonly shape: readonly number[] | undefined;
}

export class ReceivedSlot<D extends DType = DType> {
  readonly #taken: TakenMessage;
  readonly #returns: SlotReturns;
  readonly #memory: SlotMemory<D>;
  readonly #kept: Kept | undefined;
  #array: DeviceArray<D> | undefined;
  #open = true;

  /** Use `reader.next()`. */
  constructor(returns: SlotReturns, memory: SlotMemory<D>, taken: TakenMessage) {
    this.#taken = taken;
    this.#returns = returns;
    this.#memory = memory;
    if (taken.byteLength > 0) return;
    this.#kept = { meta: this.meta, shape: this.#ownShape() };
    returns.giveBack(taken);
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
    this.#array ??= this.#memory.array(this.#taken.slot, this.#shape(), this);
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
    const { slot, metaBytes } = this.#taken;
    return (this.#kept?.meta ?? this.#returns.control.meta(slot, metaBytes)).slice();
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
    if (this.#returns.lent.size > 0) this.#returns.lent.delete(this);
    if (points.release.hasSubscribers) {
      const { sequence } = this.#taken;
      points.release.publish({ name: this.#returns.label, sequence, slot: this });
    }
    if (this.#kept === undefined) this.#returns.release(this.#taken, stream);
  }

  /** From here on the message is not given back if the program drops it. @internal */
  lend(stream?: Stream): void {
    if (!this.open || (stream !== undefined && stream === this.#returns.stream)) return;
    this.#returns.lent.add(this);
  }

  /**
   * The listener is called once, when the slot is given back: by the program, or because the
   * program has dropped the message. @internal
   */
  onGivenBack(listener: () => void): void {
    if (this.#taken.released) listener();
    else this.#returns.listeners.set(this.#taken, listener);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #shape(): readonly number[] | undefined {
    const { facts } = this.#memory;
    const shape = this.#kept === undefined ? this.#ownShape() : this.#kept.shape;
    const wanted = shapeOfMessage(facts, this.byteLength, shape);
    if (wanted !== "contradiction") return wanted;
    const claim = `shape [${shape?.join(", ") ?? ""}] of ${facts.dtype}`;
    const found = `a message of ${this.byteLength} bytes claims ${claim}`;
    throw new CudaIpcError(
      "CHANNEL_CORRUPT",
      `Cannot read channel "${this.#returns.label}": ${found}`,
    );
  }

  #ownShape(): readonly number[] | undefined {
    if ((this.#taken.flags & flags.shaped) === 0) return undefined;
    return this.#returns.control.shape(this.#taken.slot);
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
