/** A queue of work on a device, done in order and apart from all other streams. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { checkValue } from "../base/timeline-line.js";
import type { DriverStream, WordOperation } from "../driver/gpu-driver.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";
import { Event } from "./event.js";
import type { ImportedEvent } from "./imported-event.js";
import { AnyTimeline, type HeldTimeline, Timeline } from "./timeline.js";
import {
  checkOperations,
  notAwaited,
  notSignalled,
  operationOf,
  type TimelineOperation,
} from "./timeline-operation.js";

export type { TimelineOperation };

interface Wait {
  readonly timeline: AnyTimeline;
  readonly value: number | bigint;
}

/** A timeline that is waited for, with the largest value. */
interface Waited {
  readonly held: HeldTimeline;
  value: number | bigint;
}

/** What enqueued work needs until it is done: mapped memory, a loaded module. */
interface Holdable {
  retain(): unknown;
  release(): void;
}

export class Stream {
  readonly device: Device;
  readonly #handle: DriverStream;
  /** Timelines that were waited for since the stream was last seen idle. */
  readonly #waits = new Map<AnyTimeline, Waited>();
  /** What was enqueued since the stream was last seen idle needs these. */
  readonly #uses = new Set<Holdable>();
  /** Events of other processes that were waited for since then. */
  readonly #events = new Set<ImportedEvent>();
  readonly #afterIdle: (() => void)[] = [];
  /** The timeline that was signalled last, where it knows of this stream: most signals of a stream are of one timeline. */
  #signalled: Timeline | undefined;
  #open = true;

  /** Use `device.createStream()`. */
  constructor(device: Device) {
    this.device = device;
    this.#handle = acquireIn((scope) => {
      device.retain();
      scope.defer(() => device.release());
      return device.driver.createStream(device.ordinal);
    });
  }

  get open(): boolean {
    return this.#open;
  }

  /** The driver's own handle, for calls on the driver. */
  get handle(): DriverStream {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use a stream of ${this.device.name}: it was closed`);
    return this.#handle;
  }

  /** Enqueues: the timeline gets this value once all work given before is done, which whoever sees the value then sees. */
  signal(timeline: Timeline, value: number | bigint): void {
    if (!(timeline instanceof Timeline)) throw notSignalled(timeline);
    const wanted = checkValue("Value of a timeline", value);
    const handle = this.handle;
    const pointer = timeline.pointerOn(this.device);
    if (timeline !== this.#signalled) {
      timeline.signalledBy(this);
      this.#signalled = timeline;
    }
    this.device.driver.writeWord(handle, pointer, wanted);
  }

  /**
   * Enqueues: work given later starts once the timeline has reached this value, or has ended; then `synchronize()` throws PEER_GONE.
   * The CPU does not wait. A stream waits for as long as the timeline's owner lives and neither signals nor closes it: where the owner
   * may be at fault, await `timeline.wait(value, { timeoutMs })` first.
   */
  wait(timeline: AnyTimeline, value: number | bigint): void;
  /**
   * Enqueues: work given later starts once the event is done, as it was last recorded by now. Where the event's exporter ends before,
   * `synchronize()` throws PEER_GONE; on a GPU the stream itself then waits for good, and is to be closed.
   * @throws EVENT_NOT_RECORDED where no recording was made or announced, PEER_GONE where its exporter has ended, STALE_HANDLE where it
   * has closed the event
   */
  wait(event: Event): void;
  wait(awaited: AnyTimeline | Event, value?: number | bigint): void {
    const handle = this.handle;
    if (awaited instanceof AnyTimeline) this.#waitForTimeline(handle, awaited, value as number | bigint);
    else this.#waitForEvent(handle, awaited);
  }

  /** Enqueues several signals and waits in their order, with one call of the driver; at most `limits.streamBatchMax`. */
  batch(operations: readonly TimelineOperation[]): void {
    const handle = this.handle;
    const waits: Wait[] = [];
    checkOperations(operations);
    const words = operations.map((operation): WordOperation => {
      const { signal, wait, value: given } = operationOf(operation);
      const value = BigInt(checkValue("Value of a timeline", given));
      if (signal !== undefined) {
        const pointer = signal.pointerOn(this.device);
        signal.signalledBy(this);
        return { kind: "write", pointer, value };
      }
      waits.push({ timeline: wait, value });
      return { kind: "wait", pointer: wait.pointerOn(this.device), value };
    });
    this.#holding(waits, () => this.device.driver.batchWords(handle, words));
  }

  /**
   * Whether all work given so far is done. Throws what earlier work failed with.
   * @throws PEER_GONE where a timeline that was waited for ended before it got there: what was done after it is worthless; and where
   * the exporter of an event that is waited for ended before it was done
   */
  isIdle(): boolean {
    const idle = this.device.driver.isIdle(this.handle);
    if (idle) this.#onIdle();
    else for (const event of this.#events) event.refuseGone();
    return idle;
  }

  /** Keeps memory mapped (or code loaded) until the stream is next seen idle, for work that is enqueued on it. @internal */
  hold(needed: Holdable): void {
    if (this.#uses.has(needed)) return;
    needed.retain();
    this.#uses.add(needed);
  }

  /** As being seen idle, where it is, for what others wait for; what it waited for itself is told to who asks for it. @internal */
  settle(): void {
    if (this.#open && this.device.driver.isIdle(this.#handle)) releaseAll(this.#takeUses());
  }

  /** Runs once when the stream is next seen idle or is closed, for what the work of a stream still uses. @internal */
  afterIdle(release: () => void): void {
    if (this.#open) this.#afterIdle.push(release);
    else release();
  }

  /**
   * Waits until all work given so far is done; the work itself goes on when the wait is given up.
   * @throws TIMEOUT, ABORTED, DEVICE_LOST, PEER_GONE as `isIdle`
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    const deadline = new Deadline(`synchronize a stream of ${this.device.name}`, options, Number.POSITIVE_INFINITY);
    await waitUntil(() => this.isIdle(), deadline);
  }

  /** Ends the stream; the caller has seen to it that it is idle. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([
      () => this.device.driver.destroyStream(this.#handle),
      ...this.#takeUses(),
      ...this.#takeWaits().map(
        ({ held }) =>
          () =>
            held.release(),
      ),
      () => this.device.release(),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #waitForTimeline(handle: DriverStream, timeline: AnyTimeline, value: number | bigint): void {
    const wanted = checkValue("Value of a timeline", value);
    const pointer = timeline.pointerOn(this.device);
    const known = this.#waits.get(timeline);
    if (known === undefined) {
      this.#holding([{ timeline, value: wanted }], () => this.device.driver.waitWord(handle, pointer, wanted));
      return;
    }
    // WHY apart: most waits of a stream are for a timeline that it holds already, and there is nothing to acquire then.
    this.device.driver.waitWord(handle, pointer, wanted);
    if (known.value < wanted) known.value = wanted;
  }

  #waitForEvent(handle: DriverStream, event: Event): void {
    if (!(event instanceof Event)) throw notAwaited(event);
    event.holdBack(handle, (imported) => {
      if (!this.#events.has(imported)) this.#events.add(imported.retain());
    });
  }

  /** WHY held: the words stay registered while the stream may wait for them, also where the timeline is closed meanwhile. */
  #holding(waits: readonly Wait[], enqueue: () => void): void {
    if (waits.every(({ timeline }) => this.#waits.has(timeline))) enqueue();
    else this.#acquiring(waits, enqueue);
    for (const { timeline, value } of waits) {
      const entry = this.#waits.get(timeline);
      if (entry !== undefined && entry.value < value) entry.value = value;
    }
  }

  #acquiring(waits: readonly Wait[], enqueue: () => void): void {
    acquireIn((scope) => {
      for (const { timeline } of waits) {
        if (this.#waits.has(timeline)) continue;
        const held = scope.own(timeline.hold(), (it) => it.release());
        this.#waits.set(timeline, { held, value: 0 });
        scope.defer(() => this.#waits.delete(timeline));
      }
      enqueue();
    });
  }

  #onIdle(): void {
    const pending = this.#waits.size + this.#uses.size + this.#events.size + this.#afterIdle.length;
    if (pending === 0) return;
    const waits = this.#takeWaits();
    const ended = firstFailure(
      waits.map(
        ({ held, value }) =>
          () =>
            held.check(value),
      ),
    );
    releaseAll([
      ...this.#takeUses(),
      ...waits.map(
        ({ held }) =>
          () =>
            held.release(),
      ),
    ]);
    // WHY the first alone: of several timelines that ended, one is reason enough, and an error with a code.
    if (ended !== undefined) throw ended.error;
  }

  #takeUses(): (() => void)[] {
    const uses = [...this.#uses, ...this.#events];
    this.#uses.clear();
    this.#events.clear();
    this.#signalled = undefined;
    return [...this.#afterIdle.splice(0), ...uses.map((needed) => () => needed.release())];
  }

  #takeWaits(): Waited[] {
    const waits = [...this.#waits.values()];
    this.#waits.clear();
    return waits;
  }
}

function firstFailure(checks: readonly (() => unknown)[]): { readonly error: unknown } | undefined {
  for (const check of checks) {
    try {
      check();
    } catch (error) {
      return { error };
    }
  }
  return undefined;
}
