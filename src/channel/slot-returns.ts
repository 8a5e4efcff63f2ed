/**
 * How the slots of a reader go back: by the CPU in any order, by streams in the order of the messages. Where a stream refuses, what comes
 * after cannot go back either: each call of the reader tries again, and throws for as long as it is refused.
 */
import { CudaIpcError, hasCode } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { Stream } from "../gpu/stream.js";
import type { ControlWords } from "../ring/control-words.js";
import type { TakenMessage } from "../ring/held-slots.js";
import type { RingReader } from "../ring/ring-reader.js";
import type { OrderedTimeline } from "./ordered-timeline.js";
import type { SlotOwner } from "./received-slot.js";

export interface SlotReturnsOptions {
  readonly label: string;
  readonly control: ControlWords;
  /** Of the reader. */
  readonly stream: Stream | undefined;
  /** Called where a stream refuses: whoever waits for a message is to be told. */
  readonly onRefused: () => void;
}

export class SlotReturns implements SlotOwner {
  readonly label: string;
  readonly control: ControlWords;
  readonly stream: Stream | undefined;
  readonly arraysInUse = new Set<{ close(): void }>();
  readonly #ring: RingReader;
  readonly #done: OrderedTimeline;
  readonly #onRefused: () => void;
  /** What slots were given back by. */
  readonly #streams = new Set<Stream>();
  #isRefused = false;
  #open = true;

  constructor(ring: RingReader, done: OrderedTimeline, { label, control, stream, onRefused }: SlotReturnsOptions) {
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

  /** Whether a stream has refused, and was not asked again with success. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** @throws what the stream refuses with */
  release(taken: TakenMessage, stream: Stream | undefined): void {
    // WHY nothing where it was closed: everything was given back then.
    if (!this.#open) return;
    if (stream === undefined) {
      this.#ring.release(taken);
      return;
    }
    this.#keep(stream);
    this.#ring.release(taken, { signal: (value) => this.#signal(stream, value) });
  }

  /**
   * Asks a stream again that has refused.
   * @throws with the code that it refuses with
   */
  retry(): void {
    if (!this.#isRefused) return;
    try {
      this.#ring.giveBackOwed();
      this.#isRefused = false;
    } catch (cause) {
      if (!(cause instanceof CudaIpcError)) throw cause;
      const found = `a stream cannot give a slot back, and those after it neither; close the reader: ${cause.message}`;
      throw new CudaIpcError(cause.code, `Cannot read channel "${this.label}": ${found}`, { cause });
    }
  }

  /** Gives all back: what streams still use once they have done with it. */
  close(): void {
    this.#open = false;
    releaseAll([
      ...[...this.arraysInUse].map((array) => () => array.close()),
      () => this.#giveAll(),
      () => this.#done.close(),
    ]);
  }

  #giveAll(): void {
    // WHY nothing more is signalled after a refusal: it would say that what was refused is done. And it was told.
    let isTaken = false;
    try {
      if (this.#isRefused) return;
      this.#ring.signalOwed();
      // WHY: the work of the reader's own stream may be about what is held.
      if (this.stream?.open && this.#ring.heldCount > 0) this.#done.signal(this.stream, this.#ring.position);
      isTaken = true;
    } catch (error) {
      // WHY no failure: its streams are told, and what is given back is given to nobody of this process.
      if (!hasCode(error, "DEVICE_LOST")) throw error;
    } finally {
      if (!isTaken) this.#awaitStreams();
    }
  }

  /** Everything is given back at once when all streams are idle. */
  #awaitStreams(): void {
    if (this.stream !== undefined) this.#streams.add(this.stream);
    for (const stream of this.#streams) this.#done.endAfter(stream);
  }

  #keep(stream: Stream): void {
    if (this.#streams.has(stream)) return;
    // WHY: those that are closed have done their work, and there may be one for each message.
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
