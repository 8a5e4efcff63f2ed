/** A queue of work on a device, done in order and independently of other streams. */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { checkValue } from "../../base/timeline-line.js";
import { checkWait } from "../../base/wait-checks.js";
import type { DriverStream, WordOperation } from "../../driver/gpu-driver.js";
import type { Device } from "../device.js";
import { waitUntil } from "./adaptive-wait.js";
import { AnyTimeline, type HeldTimeline } from "./any-timeline.js";
import { Event } from "./event.js";
import type { ImportedEvent } from "./imported-event.js";
import { Timeline } from "./timeline.js";
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

/** A timeline that the stream waits for, with the largest value. */
interface Waited {
  readonly held: HeldTimeline;
  value: number | bigint;
}

/** A resource that enqueued work needs until it is done: mapped memory or a loaded module. */
interface Holdable {
  retain(): unknown;
  release(): void;
}

export class Stream {
  readonly device: Device;
  readonly #handle: DriverStream;
  /** Timelines that the stream waits for, since it was last seen idle. */
  readonly #waits = new Map<AnyTimeline, Waited>();
  /** Resources of the work enqueued since the stream was last seen idle. */
  readonly #uses = new Set<Holdable>();
  /** Events of other processes that the stream waits for, since it was last seen idle. */
  readonly #events = new Set<ImportedEvent>();
  readonly #afterIdle: (() => void)[] = [];
  /**
   * The timeline signalled last, if it knows this stream. Most streams signal only one timeline.
   */
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

  /** The driver's handle, for driver calls. @internal */
  get handle(): DriverStream {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot use a stream of ${this.device.name}: it was closed`);
    return this.#handle;
  }

  /**
   * Enqueues a signal: the timeline gets this value once all earlier work of this stream is done. A
   * reader that sees the value also sees the results of that work.
   */
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
   * Enqueues a wait: later work of this stream starts once the timeline has reached this value. The
   * CPU does not wait. If the timeline ends first, the work starts, too, and `synchronize()` throws
   * PEER_GONE.
   *
   * The wait has no timeout: it lasts while the owner lives and neither signals nor closes the
   * timeline. If you do not trust the owner, await `timeline.wait(value, { timeoutMs })` first.
   */
  wait(timeline: AnyTimeline, value: number | bigint): void;
  /**
   * Enqueues a wait: later work of this stream starts once the latest recording of the event is
   * done. If the event's exporter ends first, `synchronize()` throws PEER_GONE. On a GPU the stream
   * then waits forever; close it.
   * @throws EVENT_NOT_RECORDED if no recording was made or announced, PEER_GONE if its exporter has
   * ended, STALE_HANDLE if its exporter has closed the event
   */
  wait(event: Event): void;
  wait(awaited: AnyTimeline | Event, value?: number | bigint): void {
    const handle = this.handle;
    if (awaited instanceof AnyTimeline)
      this.#waitForTimeline(handle, awaited, value as number | bigint);
    else this.#waitForEvent(handle, awaited);
  }

  /**
   * Enqueues signals and waits, in order, with one driver call; at most `limits.streamBatchMax`.
   */
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
   * Whether all enqueued work is done. Throws if earlier work failed.
   * @throws PEER_GONE if a timeline ended before it reached the value that the stream waited for
   * (discard the results of the work after that wait), or if an event's exporter ended before the
   * event was done
   */
  isIdle(): boolean {
    const idle = this.device.driver.isIdle(this.handle);
    if (idle) this.#onIdle();
    else for (const event of this.#events) event.refuseGone();
    return idle;
  }

  /** Keeps the resource until the stream is next seen idle, for work enqueued on it. @internal */
  hold(needed: Holdable): void {
    if (this.#uses.has(needed)) return;
    needed.retain();
    this.#uses.add(needed);
  }

  /**
   * Releases the resources of finished work if the stream is idle. Unlike `isIdle`, it does not
   * report timelines that ended; the next `isIdle` does.
   * @internal
   */
  settle(): void {
    if (this.#open && this.device.driver.isIdle(this.#handle)) releaseAll(this.#takeUses());
  }

  /** Calls `release` once, when the stream is next seen idle or is closed. @internal */
  afterIdle(release: () => void): void {
    if (this.#open) this.#afterIdle.push(release);
    else release();
  }

  /**
   * Waits until all enqueued work is done. After a timeout or an abort the work itself continues.
   * @throws TIMEOUT, ABORTED, DEVICE_LOST, PEER_GONE as `isIdle`
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    const deadline = new Deadline(
      `synchronize a stream of ${this.device.name}`,
      options,
      Number.POSITIVE_INFINITY,
    );
    await waitUntil(() => this.isIdle(), deadline);
  }

  /** Destroys the stream. Call it only when the stream is idle. */
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
      this.#holding([{ timeline, value: wanted }], () =>
        this.device.driver.waitWord(handle, pointer, wanted),
      );
      return;
    }
    // The fast path: most waits are for a timeline that the stream already holds.
    this.device.driver.waitWord(handle, pointer, wanted);
    if (known.value < wanted) known.value = wanted;
  }

  #waitForEvent(handle: DriverStream, event: Event): void {
    if (!(event instanceof Event)) throw notAwaited(event);
    event.holdBack(handle, (imported) => {
      if (!this.#events.has(imported)) this.#events.add(imported.retain());
    });
  }

  /**
   * Holds the timelines, so their words stay registered while the stream may wait for them, even if
   * the timeline is closed meanwhile.
   */
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
    // Only the first is thrown: one ended timeline explains enough, and its error has a code.
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
