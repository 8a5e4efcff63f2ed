/**
 * Reads a channel: each message in place, in order, held until it is released. Spins a little, then sleeps until its bell is rung. With a
 * stream the GPU waits for the message's data, and the CPU does not.
 */
import type { ReadableStream } from "node:stream/web";
import type { DType } from "../array/dtype.js";
import { checkNotAborted, Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { lineAt, stateOf } from "../base/timeline-line.js";
import { nextTurn, waitUntil } from "../gpu/adaptive-wait.js";
import type { Device } from "../gpu/device.js";
import type { Stream } from "../gpu/stream.js";
import { ImportedTimeline } from "../gpu/timeline.js";
import { ringBell } from "../os/bell.js";
import { CLAIMS, page as pageLayout } from "../ring/channel-layout.js";
import type { ControlWords } from "../ring/control-words.js";
import type { TakenMessage } from "../ring/held-slots.js";
import { PageWords } from "../ring/page-words.js";
import { RingReader } from "../ring/ring-reader.js";
import { AdaptiveSpin } from "./adaptive-spin.js";
import { BellWatch } from "./bell-watch.js";
import type { ReaderParts } from "./channel-parts.js";
import { FairTurns } from "./fair-turns.js";
import { OrderedTimeline } from "./ordered-timeline.js";
import { checkReaderOptions, type ReaderOptions } from "./reader-options.js";
import { ReceivedSlot } from "./received-slot.js";
import { SleeperLoss } from "./sleeper-loss.js";
import { SlotReturns } from "./slot-returns.js";
import { readableOf, type StreamedMessage } from "./web-streams.js";

const SPIN_MS = 0.02;

export class ChannelReader<D extends DType = DType> {
  readonly label: string;
  readonly stream: Stream | undefined;
  readonly #control: ControlWords;
  readonly #returns: SlotReturns;
  readonly #parts: ReaderParts<D>;
  readonly #ring: RingReader;
  readonly #bell: BellWatch;
  readonly #done: OrderedTimeline;
  readonly #spin: AdaptiveSpin;
  readonly #turns = new FairTurns();
  readonly #onClose: () => void;
  readonly #loss: SleeperLoss;
  /** Of the writer whose message came last. */
  #ready: { readonly epoch: number; readonly timeline: ImportedTimeline } | undefined;
  /** Taken, and its data are not there yet. */
  #pending: TakenMessage | undefined;
  /** Says in a TIMEOUT of `next()` why no message came. */
  readonly #why = () => (this.#open ? this.#whyEmpty() : undefined);
  /** Whether a `next` is under way. */
  #isAwaited = false;
  #open = true;

  /**
   * Takes over the parts, unless it throws, and begins to read.
   * @param onClose called once when it is closed and its streams are done
   * @throws TypeError, RangeError, CHANNEL_CORRUPT
   */
  constructor(parts: ReaderParts<D>, options: ReaderOptions, onClose: () => void) {
    checkReaderOptions(options);
    const { label, words, page, place, lease, roomBell } = parts;
    this.label = label;
    this.#control = words;
    this.stream = options.stream;
    this.#parts = parts;
    this.#onClose = onClose;
    this.#spin = new AdaptiveSpin(options.spinMs ?? SPIN_MS);
    this.#ring = new RingReader(words, new PageWords(page.cpu.buffer), {
      label,
      place,
      lease,
      from: options.from ?? "next",
      mayBeOvertaken: options.mayBeOvertaken ?? false,
      ring: () => ringBell(roomBell),
    });
    this.#bell = new BellWatch(parts.bell);
    this.#loss = new SleeperLoss(parts.memory.buffer.device, () => this.#wakeUp());
    this.#done = new OrderedTimeline(`${label}: done`, page.retain(), pageLayout.done, () => this.#onSettled());
    this.#returns = new SlotReturns(this.#ring, this.#done, {
      label,
      control: words,
      stream: this.stream,
      onRefused: () => this.#wakeUp(),
    });
  }

  get device(): Device {
    return this.#parts.memory.buffer.device;
  }

  get open(): boolean {
    return this.#open;
  }

  get dtype(): D {
    return this.#parts.memory.facts.dtype;
  }

  /** Of a message that fills its slot. */
  get shape(): readonly number[] {
    return this.#parts.memory.facts.shape;
  }

  get slots(): number {
    return this.#control.facts.slots;
  }

  /** Of one message. */
  get metaBytesMax(): number {
    return this.#control.facts.metaBytesMax;
  }

  get mayBeOvertaken(): boolean {
    return this.#ring.mayBeOvertaken;
  }

  /** Messages that were read. */
  get received(): number {
    return this.#ring.received;
  }

  /** Messages that the writer overwrote before this reader came to them, or that died with their writer. */
  get missed(): number {
    return this.#ring.missed;
  }

  /**
   * The next message, where it is there.
   * @throws CLOSED, CHANNEL_CORRUPT, READER_EXPELLED; LIMIT_EXCEEDED where it holds more slots than one that may be overtaken can; where a stream
   * has refused to give a slot back, and still does, as it does
   */
  tryNext(): ReceivedSlot<D> | undefined {
    this.#checkOpen();
    this.#returns.retry();
    if (this.#isHeldUpByStreams()) return undefined;
    for (;;) {
      const taken = this.#pending ?? this.#ring.tryTake();
      if (taken === undefined) return undefined;
      if (taken.readyAt > 0 && !this.#order(taken)) {
        if (this.#pending !== undefined) return undefined;
        // Its writer died before the data were there.
        continue;
      }
      this.#pending = undefined;
      return new ReceivedSlot(this.#returns, this.#parts.memory, taken);
    }
  }

  /**
   * The next message; undefined once the writer has closed the channel and everything was read. One call waits at a time.
   * @throws PEER_GONE where the writer died, once everything was read; TIMEOUT, ABORTED, DEVICE_LOST, IN_USE where another call waits,
   * and as `tryNext`
   */
  async next(options: WaitOptions = {}): Promise<ReceivedSlot<D> | undefined> {
    this.#checkOpen();
    // WHY refused: it would take the messages of a call that was given up without being told.
    if (this.#isAwaited) {
      const found = "another call waits for a message; give it a signal or a timeoutMs to end it";
      throw new CudaIpcError("IN_USE", `Cannot read channel "${this.label}": ${found}`);
    }
    checkNotAborted(`read channel "${this.label}"`, options);
    this.#isAwaited = true;
    try {
      const pause = this.#turns.turn();
      if (pause !== undefined) await pause;
      const slot = this.tryNext() ?? this.#spin.until(() => this.tryNext(), options.timeoutMs);
      if (slot !== undefined) return slot;
      // WHY here and not in a function of its own: every further one to come back to takes its time when this one wakes.
      const deadline = new Deadline(`read channel "${this.label}"`, options, Number.POSITIVE_INFINITY, this.#why);
      for (;;) {
        if (this.#hasEnded()) return undefined;
        deadline.check();
        try {
          await this.#change(deadline);
        } finally {
          if (this.#open) this.#ring.wakeUp();
        }
        this.#turns.waited();
        const slot = this.tryNext();
        if (slot !== undefined) return slot;
        this.#loss.check();
      }
    } finally {
      this.#isAwaited = false;
    }
  }

  /** As `next` again and again. Each slot is released when the next is asked for, and where the loop is left. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ReceivedSlot<D>, void, undefined> {
    for (;;) {
      const slot = await this.next();
      if (slot === undefined) return;
      try {
        yield slot;
      } finally {
        slot.release();
      }
    }
  }

  /**
   * A stream of the messages, each copied out of its slot; `Readable.fromWeb` with `objectMode` makes one of Node's. It reads when it is read, and closes this
   * reader at its end, where it fails and where it is cancelled.
   */
  toWeb(): ReadableStream<StreamedMessage<D>> {
    this.#checkOpen();
    return readableOf(this);
  }

  /** Gives everything back; what streams still use, once they have done with it: until then it keeps its place. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#loss.close();
    releaseAll([() => this.#bell.close(), () => this.#ready?.timeline.close(), () => this.#returns.close()]);
  }

  /** Looks whether its streams have done what was still to come when it was closed. @internal */
  settle(): void {
    this.#done.settle();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #onSettled(): void {
    releaseAll([() => this.#ring.detach(), () => this.#parts.close(), this.#onClose]);
  }

  #wakeUp(): void {
    if (this.#isAwaited) ringBell(this.#parts.bell);
  }

  /** Whether streams hold the slots, as many as a reader that may be overtaken can; they give them back in a while. */
  #isHeldUpByStreams(): boolean {
    return !this.#ring.mayHoldMore && this.#ring.heldCount < CLAIMS;
  }

  /** Whether the message's data are there for who asks next; keeps it as pending where they are not, and gives it up where they never will be. */
  #order(taken: TakenMessage): boolean {
    this.#pending = taken;
    const ready = this.#readyOf(taken);
    const { value, ended } = stateOf(lineAt(this.#parts.control.cpu, ready.byteOffset));
    if (value >= BigInt(taken.readyAt)) return true;
    if (ended) {
      this.#pending = undefined;
      this.#ring.lose(taken);
    } else if (this.stream !== undefined) {
      this.stream.wait(ready, taken.readyAt);
      return true;
    }
    return false;
  }

  #readyOf({ epoch }: TakenMessage): ImportedTimeline {
    if (this.#ready?.epoch === epoch) return this.#ready.timeline;
    this.#ready?.timeline.close();
    const { control, words } = this.#parts;
    const timeline = new ImportedTimeline(`${this.label}: ready`, control.retain(), words.readyOffset(epoch));
    this.#ready = { epoch, timeline };
    return timeline;
  }

  /** What to wait for where there is no message, asleep or not. */
  #change(deadline: Deadline): Promise<void> {
    if (this.#isHeldUpByStreams()) return this.#until(() => !this.#isHeldUpByStreams(), deadline);
    const pending = this.#pending;
    // WHY asked before its data: `tryNext` may have given it out meanwhile, or given it up.
    if (pending !== undefined) return this.#until(() => this.#pending !== pending || this.#order(pending), deadline);
    this.#ring.fallAsleep();
    // WHY asked again: a message may have come before its writer could see that this side sleeps.
    return this.#hasNews() ? nextTurn() : this.#bell.heard(deadline);
  }

  #until(isOver: () => boolean, deadline: Deadline): Promise<void> {
    return waitUntil(() => this.#isInterrupted() || isOver(), deadline, undefined, this.device);
  }

  #isInterrupted(): boolean {
    return !this.#open || this.#returns.isRefused;
  }

  #whyEmpty(): string {
    const { state, sequence } = this.#control;
    if (this.#isHeldUpByStreams()) return `streams hold ${this.#ring.heldCount} slots, as many as this reader can have`;
    if (this.#pending !== undefined) return "a stream of the writer is still at work on the next message";
    if (state === "awaited") return "its writer is gone, and no other one has come yet";
    return `its writer has committed nothing more, ${sequence} ${sequence === 1 ? "message" : "messages"} in all`;
  }

  #hasNews(): boolean {
    const { state } = this.#control;
    return this.#ring.hasNext || state === "closed" || state === "gone";
  }

  /**
   * Whether everything was read, and the writer has closed the channel.
   * @throws PEER_GONE where it died
   */
  #hasEnded(): boolean {
    const { state } = this.#control;
    if (this.#pending !== undefined || this.#isHeldUpByStreams()) return false;
    if (state === "open" || state === "awaited") return false;
    // SYNC: after the state, so that a message before the end is not passed over.
    if (this.#ring.hasNext) return false;
    if (state === "closed") return true;
    throw new CudaIpcError(
      "PEER_GONE",
      `Cannot read channel "${this.label}": its writer is gone, and all that it committed was read`,
    );
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot read channel "${this.label}": it was closed`);
  }
}
