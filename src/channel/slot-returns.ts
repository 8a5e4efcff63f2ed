/** Gives the slots of one reader back: released by the program, or dropped. */
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { collectGarbage, garbageWasFound, StallWatch } from "../base/garbage.js";
import { heldHere } from "../base/held-here.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import { LeakWatch } from "../gpu/memory/leak-watch.js";
import { nextTurn } from "../gpu/order/adaptive-wait.js";
import type { Stream } from "../gpu/order/stream.js";
import type { ControlWords } from "../ring/control-words.js";
import type { RingReader, TakenMessage } from "../ring/ring-reader.js";
import { points } from "./channel-diagnostics.js";
import type { OrderedTimeline } from "./ordered-timeline.js";
import { ReceivedSlot } from "./received-slot.js";
import type { SlotMemory } from "./slot-memory.js";

/** Finalizers of a collection run one or two turns later. */
const TURNS_OF_FINALIZERS = 3;

/** A reader that is behind may drop so many messages before any of them is given back. */
const UNWATCHED_MAX = 4;

export interface SlotReturnsOptions {
  readonly label: string;
  readonly control: ControlWords;
  readonly memory: SlotMemory;
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
  /** Messages that are not given back if they are dropped. */
  readonly lent = new Set<object>();
  /** Called once, when the message is given back. */
  readonly listeners = new Map<TakenMessage, () => void>();
  readonly #memory: SlotMemory;
  readonly #dropped = new LeakWatch<ReceivedSlot, TakenMessage>((taken) => this.#onDropped(taken));
  /** Bytes that the program may still use although it has dropped the message. */
  readonly #bytes = new FinalizationRegistry<TakenMessage>((taken) => this.giveBack(taken));
  /** Messages at earlier positions are watched. */
  #watchedTo = 0;
  readonly #unwatchedMax: number;
  readonly #stall: StallWatch;
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
    { label, control, memory, stream, onRefused }: SlotReturnsOptions,
  ) {
    this.label = label;
    this.control = control;
    this.stream = stream;
    this.#ring = ring;
    this.#done = done;
    this.#onRefused = onRefused;
    this.#memory = memory;
    // A lossy reader holds up others although it has no message to ask for.
    this.#unwatchedMax = ring.lossy ? 0 : Math.min(UNWATCHED_MAX, control.facts.slots - 1);
    this.#stall = new StallWatch(() =>
      this.#open && ring.holdsAll ? ring.position + ring.heldCount : undefined,
    );
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
    if (!taken.released) {
      // WHY kept at first: to watch a message takes a tenth of all its time.
      taken.holder = slot;
      if (this.#ring.heldCount > this.#unwatchedMax) this.#watchHeld();
    }
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
    try {
      if (stream === undefined) this.#ring.release(taken);
      else {
        this.#keep(stream);
        this.#ring.release(taken, (value) => this.#signal(stream, value));
      }
    } finally {
      if (this.listeners.size > 0) this.#tell(taken);
    }
  }

  /** As `release`, by the reader's stream. If the stream refuses, the reader's next call throws. */
  giveBack(taken: TakenMessage): void {
    if (taken.released) return;
    try {
      // A message without data has nothing that a stream could use.
      this.release(taken, taken.byteLength === 0 ? undefined : this.stream);
    } catch (error) {
      if (!this.#isRefused) throw error;
    }
  }

  /** Why no message has come, for an error. */
  whyEmpty(pending: TakenMessage | undefined): string {
    const { state, sequence } = this.control;
    const { heldCount } = this.#ring;
    if (pending !== undefined) return "a stream of the writer is still at work on the next message";
    if (this.#ring.isHeldUp && this.#ring.hasNext)
      return `streams hold ${heldCount} slots, as many as this reader can have`;
    if (this.#ring.holdsAll)
      return `no slot is free: ${heldHere(this.#ring.held.unreleased, "message")}`;
    if (this.#ring.isOutrun) {
      const looks = `${limits.channelLooksMax} looks found no message`;
      return `its writer never stops changing its words: ${looks}`;
    }
    if (state === "awaited") return "its writer is gone, and no other one has come yet";
    const count = sequence === 1 ? "1 message" : `${sequence} messages`;
    return `its writer has committed nothing more, ${count} in all`;
  }

  /** There is no next message. It cannot come if this reader holds all slots. */
  ranDry(): undefined {
    if (this.#ring.heldCount > 0 && this.#ring.holdsAll) this.#watchHeld();
    return undefined;
  }

  /** A wait for a message begins. If this reader holds all slots, it may have dropped some. */
  waitBegins(): void {
    if (this.#ring.holdsAll) this.#stall.begin();
  }

  /** Gives back what the program has dropped, if streams do not hold it. */
  async collect(): Promise<void> {
    if (this.#ring.isHeldUp) return;
    // Bytes are collected after their message.
    for (let round = 0; round < 2; round += 1) {
      collectGarbage();
      for (let turn = 0; turn < TURNS_OF_FINALIZERS; turn += 1) await nextTurn();
    }
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
    this.#stall.close();
    this.lent.clear();
    this.listeners.clear();
    releaseAll([() => this.#giveAll(), () => this.#done.close()]);
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

  /** Neither the message nor its array is reachable. */
  #onDropped(taken: TakenMessage): void {
    if (!this.#open || taken.released) return;
    garbageWasFound();
    const bytes = this.#memory.forgetBytes(taken.slot);
    if (bytes === undefined) this.giveBack(taken);
    else this.#bytes.register(bytes, taken);
  }

  /** From here on it is noticed if the program drops one of the messages that it holds. */
  #watchHeld(): void {
    const { held, position } = this.#ring;
    if (position === this.#watchedTo) return;
    for (const taken of held.since(this.#watchedTo)) {
      if (taken.holder !== undefined) this.#dropped.watch(taken.holder as ReceivedSlot, taken);
      taken.holder = undefined;
    }
    this.#watchedTo = position;
  }

  #tell(taken: TakenMessage): void {
    const listener = this.listeners.get(taken);
    this.listeners.delete(taken);
    listener?.();
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
