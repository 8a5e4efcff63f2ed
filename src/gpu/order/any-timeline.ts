/**
 * A 64-bit counter in shared memory that only grows. Its owner signals it from a stream or the CPU.
 * Streams and CPUs of all processes can wait for it, at a fraction of the cost of events.
 *
 * - Values are from 0 to 2^63 - 2. Each signal must be larger than the one before; for signals from
 *   streams this is not checked, so the owner must ensure it.
 * - A timeline ends when it is closed or its owner dies. All waiters continue. If their value was
 *   not reached, CPU waits throw PEER_GONE, and so does `synchronize()` of the waiting streams.
 * - A named timeline may instead wait for its next owner (`whenOwnerGone: "wait"`). Then its
 *   waiters wait on.
 * - Create, import and first use timelines before the device's streams wait for anything, because
 *   the first use registers memory with the driver.
 */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { aBoolean, checkMilliseconds, optionsOf, waitChecks } from "../../base/option-checks.js";
import { releaseAll } from "../../base/scope.js";
import {
  checkReached,
  checkValue,
  isOwnerAwaited,
  type Line,
  lineAt,
  liveValue,
  stateOf,
} from "../../base/timeline-line.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import type { Device } from "../device.js";
import { waitUntil } from "./adaptive-wait.js";
import type { SharedWords } from "./shared-words.js";

export interface TimelineWaitOptions extends WaitOptions {
  /** How long to spin before yielding to the event loop; 20 microseconds by default. */
  readonly spinMs?: number | undefined;
}

const checkTimelineWait = optionsOf<TimelineWaitOptions>("wait()", {
  ...waitChecks,
  spinMs: checkMilliseconds,
});

const checkRead = optionsOf<{ readonly evenIfEnded?: boolean }>("read()", {
  evenIfEnded: aBoolean,
});

export interface Surroundings {
  /** Called once when the timeline is closed; for an own timeline, after it has ended. */
  readonly onClose?: (() => void) | undefined;
  /** `close` does not end an own timeline: its next owner continues it. */
  readonly awaitsOwner?: boolean | undefined;
  /** CPU waits end with an error if this device is lost. */
  readonly device?: Device | undefined;
}

/** A timeline of this or another process, to wait for. */
export abstract class AnyTimeline {
  readonly label: string;
  readonly byteOffset: number;
  /** @internal */
  protected readonly words: SharedWords;
  /** @internal */
  protected readonly line: Line;
  /** @internal */
  protected readonly onClose: () => void;
  readonly #home: Device | undefined;
  /** Caches the last device and the address on it. Most timelines are used on one device only. */
  #device: Device | undefined;
  #pointer = 0n;
  /** Where it is, for errors. */
  #where = "";
  #open = true;

  /**
   * Takes ownership of one use of the words. Use `createTimeline()` or `importTimeline()` of a
   * device.
   */
  constructor(
    label: string,
    words: SharedWords,
    byteOffset: number,
    { onClose, device }: Surroundings = {},
  ) {
    this.label = label;
    this.words = words;
    this.byteOffset = byteOffset;
    this.line = lineAt(words.cpu, byteOffset);
    this.onClose = onClose ?? (() => {});
    this.#home = device;
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * The value reached so far.
   * @throws PEER_GONE if nobody signals the timeline any more, because it has ended or waits for
   * its next owner. `read({ evenIfEnded: true })` returns the last value.
   */
  get value(): bigint {
    this.checkOpen();
    const found = liveValue(this.line);
    if (found === undefined || isOwnerAwaited(this.line)) throw this.#withoutOwner();
    return found;
  }

  /**
   * Returns the value reached so far.
   * @throws PEER_GONE as `value`, unless `evenIfEnded` is true
   */
  read(options: { readonly evenIfEnded?: boolean | undefined } = {}): bigint {
    checkRead(options);
    if (options.evenIfEnded !== true) return this.value;
    this.checkOpen();
    return stateOf(this.line).value;
  }

  /** Whether the timeline has ended: its value will not grow any more. */
  get ended(): boolean {
    this.checkOpen();
    return stateOf(this.line).ended;
  }

  /** Whether the timeline has no owner and waits for the next one. */
  get awaited(): boolean {
    this.checkOpen();
    return isOwnerAwaited(this.line) && !stateOf(this.line).ended;
  }

  /**
   * Checks without waiting whether the value was reached.
   * @throws PEER_GONE if it never will be
   */
  reached(value: number | bigint): boolean {
    this.checkOpen();
    // WHY: converting the number once is faster than comparing the line's bigint with a number.
    const wanted = BigInt(checkValue("Value of a timeline", value));
    // WHY: spinning loops call this very often, so the common case must not allocate an object.
    const found = liveValue(this.line);
    return found === undefined
      ? checkReached(this.label, stateOf(this.line), wanted)
      : found >= wanted;
  }

  /**
   * Waits on the CPU until the value is reached. There is no timeout by default.
   * @throws PEER_GONE, TIMEOUT, ABORTED; CLOSED if this object is closed during the wait;
   * DEVICE_LOST if this process loses its context on the device during the wait
   */
  async wait(value: number | bigint, options: TimelineWaitOptions = {}): Promise<void> {
    checkTimelineWait(options);
    this.checkOpen();
    const wanted = checkValue("Value of a timeline", value);
    const attempt = `wait for ${wanted} of timeline "${this.label}"`;
    const why = () => this.#whyNotReached();
    const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY, why);
    const words = this.words.retain();
    try {
      const isReached = () => {
        if (checkReached(this.label, stateOf(this.line), wanted)) return true;
        this.checkOpen();
        return false;
      };
      await waitUntil(isReached, deadline, options.spinMs, this.#home);
    } finally {
      words.release();
    }
  }

  /** Names the hub that has it in the timeouts of `wait`. @internal */
  nameHub(socketPath: string): void {
    this.#where = `; the hub is at ${socketPath}`;
  }

  /** Registers the timeline with a device now instead of at its first use. */
  prepare(device: Device): void {
    this.pointerOn(device);
  }

  /** The timeline's address on the device, for streams. @internal */
  pointerOn(device: Device): DevicePointer {
    this.checkOpen();
    if (device !== this.#device) {
      this.#pointer = this.words.pointerOn(device) + BigInt(this.byteOffset);
      this.#device = device;
    }
    return this.#pointer;
  }

  /**
   * Keeps the memory until `release`, even if the timeline is closed; for waiting streams.
   * @internal
   */
  hold(): HeldTimeline {
    this.checkOpen();
    const words = this.words.retain();
    const { label, line } = this;
    return {
      check: (wanted) => checkReached(label, stateOf(line), wanted),
      release: () => words.release(),
    };
  }

  /**
   * Closes the timeline. Pending CPU waits of this process throw CLOSED. An own timeline ends for
   * all processes, once the streams that still have to signal it are seen idle or closed.
   */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([() => this.end(), () => this.words.release()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #whyNotReached(): string {
    const found = `it has reached ${stateOf(this.line).value}`;
    const awaited = isOwnerAwaited(this.line) ? ", and its next owner is awaited" : "";
    return found + awaited + this.#where;
  }

  #withoutOwner(): CudaIpcError {
    const { value, ended } = stateOf(this.line);
    const found = ended
      ? `it ended at ${value}: its owner closed it or is gone`
      : `its owner left it at ${value}, and no other process has resumed it`;
    return new CudaIpcError(
      "PEER_GONE",
      `Cannot read timeline "${this.label}": ${found}. ` +
        "read({ evenIfEnded: true }) returns the value",
    );
  }

  /** Called by `close` before the words are released. */
  protected abstract end(): void;

  protected checkOpen(): void {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot use timeline "${this.label}": it was closed`);
  }
}

/** A timeline that a stream waits for. */
export interface HeldTimeline {
  /** @throws PEER_GONE if the value will never be reached */
  check(wanted: number | bigint): boolean;
  release(): void;
}
