/** A message that a reader holds, in place: its data stay as they are until it is released. */
import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { Stream } from "../gpu/stream.js";
import { flags } from "../ring/channel-layout.js";
import type { ControlWords } from "../ring/control-words.js";
import type { TakenMessage } from "../ring/held-slots.js";
import { decodeJson, type JsonValue } from "./message-meta.js";
import { checkStream } from "./ordered-timeline.js";
import { type SlotMemory, shapeOfMessage } from "./slot-memory.js";

export interface ReleaseOptions {
  /** The slot goes back once this stream has done what was given to it by now. */
  readonly stream?: Stream | undefined;
}

const BY_READER: ReleaseOptions = {};

/** What a slot asks of its reader. */
export interface SlotOwner {
  readonly label: string;
  readonly control: ControlWords;
  readonly open: boolean;
  /** Whose order gives the slot back where the caller names none. */
  readonly stream: Stream | undefined;
  release(taken: TakenMessage, stream: Stream | undefined): void;
  /** Which end with the reader. */
  readonly arraysInUse: Set<{ close(): void }>;
}

export class ReceivedSlot<D extends DType = DType> {
  readonly #taken: TakenMessage;
  readonly #owner: SlotOwner;
  readonly #memory: SlotMemory<D>;
  #array: DeviceArray<D> | undefined;
  #open = true;

  /** Use `reader.next()`. */
  constructor(owner: SlotOwner, memory: SlotMemory<D>, taken: TakenMessage) {
    this.#taken = taken;
    this.#owner = owner;
    this.#memory = memory;
  }

  get open(): boolean {
    return this.#open && this.#owner.open;
  }

  /** Counts messages of the channel, dropped ones left out. */
  get sequence(): number {
    return this.#taken.sequence;
  }

  /** When it was committed, in milliseconds since 1970, by the writer's clock. */
  get timestampMs(): number {
    return this.#taken.timestampMs;
  }

  /** Messages that this reader lost between the one before, or its beginning, and this one. */
  get missed(): number {
    return this.#taken.missed;
  }

  get byteLength(): number {
    return this.#taken.byteLength;
  }

  /**
   * The message, in place. It ends with the slot; await what reads it before.
   * @throws CHANNEL_CORRUPT where its shape is not that of its bytes
   */
  get array(): DeviceArray<D> {
    this.#checkOpen("use");
    if (this.#array === undefined) {
      this.#array = this.#memory.array(this.#taken.slot, this.#shape());
      this.#owner.arraysInUse.add(this.#array);
    }
    return this.#array;
  }

  /**
   * The message as bytes, in place, on the host device. Once the slot is released they are those of another message.
   * @throws UNSUPPORTED on a GPU
   */
  get bytes(): Uint8Array {
    this.#checkOpen("use");
    return this.#memory.bytes(this.#taken.slot, this.byteLength);
  }

  /** A copy of the meta bytes; empty where there are none. */
  get meta(): Uint8Array {
    this.#checkOpen("use");
    return this.#owner.control.meta(this.#taken.slot, this.#taken.metaBytes).slice();
  }

  /**
   * The meta as the value that was given; undefined where it is bytes or none.
   * @throws CHANNEL_CORRUPT
   */
  get json(): JsonValue | undefined {
    this.#checkOpen("use");
    if ((this.#taken.flags & flags.json) === 0) return undefined;
    return decodeJson(this.#owner.label, this.meta);
  }

  /**
   * Gives the slot back: at once, or where there is a stream (here or of the reader) once that has done what was given to it by now.
   * Releasing it again changes nothing.
   * @throws what the stream refuses with, such as DEVICE_LOST: the slot goes back once the stream takes it, which the reader asks it at each
   * call, or with the reader
   */
  release(options: ReleaseOptions = BY_READER): void {
    if (!this.#open) return;
    const stream = checkStream(options.stream) ?? this.#owner.stream;
    this.#open = false;
    this.#endArray();
    this.#owner.release(this.#taken, stream);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #endArray(): void {
    if (this.#array === undefined) return;
    this.#owner.arraysInUse.delete(this.#array);
    this.#array.close();
  }

  #shape(): readonly number[] | undefined {
    const { facts } = this.#memory;
    const shape = (this.#taken.flags & flags.shaped) === 0 ? undefined : this.#owner.control.shape(this.#taken.slot);
    const wanted = shapeOfMessage(facts, this.byteLength, shape);
    if (wanted !== "contradiction") return wanted;
    const found = `a message of ${this.byteLength} bytes claims shape [${shape?.join(", ") ?? ""}] of ${facts.dtype}`;
    throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot read channel "${this.#owner.label}": ${found}`);
  }

  #checkOpen(verb: string): void {
    // WHY the reader, too: with it the memory goes in which the words of the message lie.
    if (this.#open && this.#owner.open) return;
    const found = this.#open ? "its reader was closed" : "it was released";
    throw new CudaIpcError("CLOSED", `Cannot ${verb} a slot of channel "${this.#owner.label}": ${found}`);
  }
}
