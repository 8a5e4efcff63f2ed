/**
 * Reads a channel: takes each message in place and in order, and holds it until it is released.
 * A wait spins for a moment, then sleeps until the reader's bell rings. With a stream the GPU waits
 * for the message's data instead of the CPU.
 */
import type { ReadableStream } from "node:stream/web";
import type { DType } from "../array/dtype.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, withCallers } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import type { Device } from "../gpu/device.js";
import { nextTurn, waitUntil } from "../gpu/order/adaptive-wait.js";
import type { Stream } from "../gpu/order/stream.js";
import { ringBell } from "../os/bell.js";
import { page as pageLayout } from "../ring/channel-layout.js";
import type { ControlWords } from "../ring/control-words.js";
import { PageWords } from "../ring/page-words.js";
import { RingReader, type TakenMessage } from "../ring/ring-reader.js";
import { BellWatch, DeviceLossWatch } from "./bell-watch.js";
import { points } from "./channel-diagnostics.js";
import { checkNext, checkReaderOptions, type ReaderOptions } from "./channel-options.js";
import type { ReaderParts } from "./channel-parts.js";
import { AdaptiveSpin } from "./hot/adaptive-spin.js";
import { FairTurns } from "./hot/fair-turns.js";
import { MessageReadiness } from "./message-readiness.js";
import { OrderedTimeline } from "./ordered-timeline.js";
import type { ReceivedSlot } from "./received-slot.js";
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
  /** The positions that this reader's streams have given back. */
  readonly #done: OrderedTimeline;
  readonly #spin: AdaptiveSpin;
  readonly #turns = new FairTurns();
  readonly #onClose: () => void;
  readonly #loss: DeviceLossWatch;
  readonly #readiness: MessageReadiness;
  /** Taken, but its GPU data is not ready yet. */
  #pending: TakenMessage | undefined;
  /** Explains a TIMEOUT of `next()`. */
  readonly #why = () => (this.#open ? this.#returns.whyEmpty(this.#pending) : undefined);
  #isAwaited = false;
  #isOrphaned = false;
  #open = true;

  /**
   * Takes over the parts, unless it throws, and begins to read.
   * @param onClose called once, when it is closed and its streams are done
   * @throws TypeError, RangeError, CHANNEL_CORRUPT
   */
  constructor(parts: ReaderParts<D>, options: ReaderOptions, onClose: () => void) {
    checkReaderOptions(options);
    const { label, words, page, seat, lease, roomBell } = parts;
    this.label = label;
    this.#control = words;
    this.stream = options.stream;
    this.#parts = parts;
    this.#onClose = onClose;
    this.#spin = new AdaptiveSpin(options.spinMs ?? SPIN_MS);
    this.#readiness = new MessageReadiness(parts, options.stream);
    this.#ring = new RingReader(words, new PageWords(page.cpu.buffer), {
      label,
      seat,
      lease,
      from: options.from ?? "next",
      lossy: options.lossy ?? false,
      ring: () => ringBell(roomBell),
    });
    this.#bell = new BellWatch(parts.bell);
    this.#loss = new DeviceLossWatch(parts.memory.buffer.device, () => this.#wakeUp());
    this.#done = new OrderedTimeline(`${label}: done`, page.retain(), pageLayout.done, () =>
      this.#onSettled(),
    );
    this.#returns = new SlotReturns(this.#ring, this.#done, {
      label,
      control: words,
      memory: parts.memory,
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

  /** The shape of a message that fills its slot. */
  get shape(): readonly number[] {
    return this.#parts.memory.facts.shape;
  }

  get slots(): number {
    return this.#control.facts.slots;
  }

  /** The most meta bytes of one message. */
  get metaBytesMax(): number {
    return this.#control.facts.metaBytesMax;
  }

  get lossy(): boolean {
    return this.#ring.lossy;
  }

  /** Messages that were read. */
  get received(): number {
    return this.#ring.received;
  }

  /** Messages that were overwritten before this reader came to them, or died with their writer. */
  get missed(): number {
    return this.#ring.missed;
  }

  /** All messages that were committed, by this writer and those before it. @internal */
  get committed(): number {
    return this.#control.sequence;
  }

  /**
   * Returns the next message, or undefined if it is not there yet. Also undefined if the writer was
   * faster at each of `limits.channelLooksMax` looks: call it again after a turn of the event loop.
   * @throws CLOSED, CHANNEL_CORRUPT, READER_EXPELLED; LIMIT_EXCEEDED if a lossy reader holds too
   * many slots; the error of a stream that still refuses to give a slot back
   */
  tryNext(): ReceivedSlot<D> | undefined {
    this.#checkOpen();
    this.#returns.retry();
    if (this.#pending === undefined && this.#ring.isHeldUp) return undefined;
    const begin = this.#ring.position;
    do {
      const taken = this.#pending ?? this.#ring.tryTake();
      if (taken === undefined) return this.#returns.ranDry();
      if (taken.readyAt > 0 && !this.#isReady(taken)) {
        if (this.#pending !== undefined) return undefined;
        // Its writer died before the data was ready.
        continue;
      }
      this.#pending = undefined;
      return this.#returns.receive(this.#parts.memory, taken);
    } while (this.#ring.position - begin < limits.channelLooksMax);
    return undefined;
  }

  /**
   * Waits for the next message. Returns undefined when the writer has closed the channel and
   * everything was read. Only one call may wait at a time.
   * @throws PEER_GONE if the writer died and everything was read; TIMEOUT, ABORTED, DEVICE_LOST;
   * IN_USE if another call waits; and as `tryNext`
   */
  async next(options: WaitOptions = {}): Promise<ReceivedSlot<D> | undefined> {
    this.#checkOpen();
    // A second call could take the messages of a call that its caller has forgotten.
    if (this.#isAwaited) {
      const found = "another call waits for a message; give it a signal or a timeoutMs to end it";
      throw new CudaIpcError("IN_USE", `Cannot read channel "${this.label}": ${found}`);
    }
    const attempt = `read channel "${this.label}"`;
    checkNext(attempt, options);
    this.#isAwaited = true;
    try {
      const pause = this.#turns.turn();
      if (pause !== undefined) await pause;
      if (!this.#ring.mayHoldMore) await this.#returns.collect();
      const slot = this.tryNext() ?? this.#spin.until(() => this.tryNext(), options.timeoutMs);
      if (slot !== undefined) return slot;
      // WHY in this function: each async function in between delays the wake-up.
      const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY, this.#why);
      for (let looks = 1; ; looks += 1) {
        if (this.#hasEnded()) return undefined;
        deadline.check();
        this.#returns.waitBegins();
        try {
          await this.#change(deadline);
        } finally {
          if (this.#open) this.#ring.wakeUp();
        }
        // Words that change at each look can end each wait within the same turn.
        if (looks % limits.channelLooksMax === 0) await nextTurn();
        this.#turns.waited();
        const slot = this.tryNext();
        if (slot !== undefined) return slot;
        this.#loss.check();
      }
    } catch (error) {
      throw withCallers(error);
    } finally {
      this.#isAwaited = false;
    }
  }

  /** Calls `next` again and again. Each slot is released before the next one, or after the loop. */
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
   * A stream of copied messages. It reads only when it is read, and closes this reader when it
   * ends, fails or is cancelled. `Readable.fromWeb` with `objectMode` makes a Node stream of it.
   */
  toWeb(): ReadableStream<StreamedMessage<D>> {
    this.#checkOpen();
    return readableOf(this);
  }

  /** Gives all slots back. The reader keeps its seat until its streams are done with them. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#loss.close();
    releaseAll([
      () => this.#bell.close(),
      () => this.#readiness.close(),
      () => this.#returns.close(),
    ]);
  }

  /** After the close: checks whether its streams are done. @internal */
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
    if (this.#isAwaited && this.#open) ringBell(this.#parts.bell);
  }

  /**
   * True if the data is ready. Otherwise keeps the message pending, or drops it if its writer died.
   */
  #isReady(taken: TakenMessage): boolean {
    this.#pending = taken;
    const readiness = this.#readiness.of(taken);
    if (readiness === "lost") {
      this.#pending = undefined;
      this.#ring.lose(taken);
    }
    return readiness === "ready";
  }

  /** Resolves when there may be a message. */
  #change(deadline: Deadline): Promise<void> {
    const pending = this.#pending;
    // `tryNext` may have returned or dropped the message meanwhile, so compare before the check.
    if (pending !== undefined)
      return this.#until(() => this.#pending !== pending || this.#isReady(pending), deadline);
    if (this.#ring.isHeldUp && this.#ring.hasNext)
      return this.#until(() => !this.#ring.isHeldUp, deadline);
    this.#ring.fallAsleep();
    // A message may have come before its writer could see that this reader sleeps.
    return this.#hasNews() ? nextTurn() : this.#bell.heard(deadline);
  }

  #until(isOver: () => boolean, deadline: Deadline): Promise<void> {
    const isInterrupted = () => !this.#open || this.#returns.isRefused;
    return waitUntil(() => isInterrupted() || isOver(), deadline, undefined, this.device);
  }

  #hasNews(): boolean {
    const { state } = this.#control;
    return this.#ring.hasNext || state === "closed" || state === "gone";
  }

  /**
   * True if the writer has closed the channel and everything was read.
   * @throws PEER_GONE if the writer died and everything was read
   */
  #hasEnded(): boolean {
    const { state } = this.#control;
    if (this.#pending !== undefined || state === "open" || state === "awaited") return false;
    // SYNC: after the state. Otherwise a message that came just before the end would be lost.
    if (this.#ring.hasNext) return false;
    this.#ring.countRest();
    if (state === "closed") return true;
    const { label: name, received } = this;
    if (!this.#isOrphaned) points.writerDied.publish({ name, received });
    this.#isOrphaned = true;
    const found = "its writer is gone, and all that it committed was read";
    throw new CudaIpcError("PEER_GONE", `Cannot read channel "${this.label}": ${found}`);
  }

  #checkOpen(): void {
    if (!this.#open) throw this.#parts.ending.error(`read channel "${this.label}"`);
  }
}
