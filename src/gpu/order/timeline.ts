/**
 * A 64-bit counter in shared memory that only grows. Its owner signals it from a stream or the CPU.
 * Streams and CPUs of all processes can wait for it, at a fraction of the cost of events.
 *
 * - Values are from 0 to 2^63 - 2. Each signal must be larger than the one before; for signals from
 *   streams this is not checked, so the owner must ensure it.
 * - A timeline ends when it is closed or its owner dies. All waiters continue. If their value was
 *   not reached, CPU waits throw PEER_GONE, and so does `synchronize()` of the waiting streams.
 * - Create, import and first use timelines before the device's streams wait for anything, because
 *   the first use registers memory with the driver.
 */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { checkMilliseconds, optionsOf, waitChecks } from "../../base/option-checks.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import {
  checkReached,
  checkValue,
  type Line,
  lineAt,
  liveValue,
  poison,
  stateOf,
  storeValue,
} from "../../base/timeline-line.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import { reopenReadOnly } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";
import { waitUntil } from "./adaptive-wait.js";
import type { SharedWords, TimelineLocation } from "./shared-words.js";
import type { Stream } from "./stream.js";

export interface TimelineWaitOptions extends WaitOptions {
  /** How long to spin before yielding to the event loop; 20 microseconds by default. */
  readonly spinMs?: number | undefined;
}

const checkTimelineWait = optionsOf<TimelineWaitOptions>("wait()", {
  ...waitChecks,
  spinMs: checkMilliseconds,
});

interface Surroundings {
  /** Called once when the timeline is closed; for an own timeline, after it has ended. */
  readonly onClose?: (() => void) | undefined;
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

  /** The value reached so far. */
  get value(): bigint {
    this.checkOpen();
    return stateOf(this.line).value;
  }

  /** Whether the timeline has ended: its value will not grow any more. */
  get ended(): boolean {
    this.checkOpen();
    return stateOf(this.line).ended;
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
    const why = () => `it has reached ${stateOf(this.line).value}`;
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

/** A timeline that this process signals. */
export class Timeline extends AnyTimeline {
  /** Streams that may still have to signal it. */
  readonly #signalling = new Set<Stream>();
  #ending = false;

  /**
   * Signals from the CPU, immediately.
   * @throws RangeError if the value is not larger than the current one
   */
  signal(value: number | bigint): void {
    this.checkOpen();
    const wanted = BigInt(checkValue("Value of a timeline", value));
    const before = liveValue(this.line);
    if (before === undefined)
      throw new CudaIpcError("CLOSED", `Cannot signal timeline "${this.label}": it has ended`);
    if (wanted <= before) {
      const found = `${wanted} is not larger than ${before}, which it has reached`;
      throw new RangeError(`Cannot signal timeline "${this.label}": ${found}`);
    }
    storeValue(this.line, wanted);
  }

  /**
   * Returns a read-only file descriptor by which other processes import the timeline. Send it with
   * `place`. The caller owns it.
   */
  exportFd(): OwnedFd {
    this.checkOpen();
    const fd = this.words.duplicateFd();
    return acquireIn((scope) => {
      let reopened: OwnedFd;
      try {
        reopened = scope.own(reopenReadOnly(fd), (it) => it.close());
      } finally {
        fd.close();
      }
      return reopened;
    });
  }

  /**
   * Returns a writable file descriptor for a process that ends the timeline if this process dies
   * (`endTimelineOfDead`). Its holder can overwrite all timelines of this device, so give it only
   * to a process you trust.
   */
  exportWritableFd(): OwnedFd {
    this.checkOpen();
    return this.words.duplicateFd();
  }

  /** The timeline's position in its memory file. */
  get place(): TimelineLocation {
    return { byteOffset: this.byteOffset };
  }

  /**
   * Keeps the memory and delays the timeline's end until the stream is next seen idle or is closed.
   * For streams that signal.
   * @internal
   */
  signalledBy(stream: Stream): void {
    if (this.#signalling.has(stream)) return;
    const words = this.words.retain();
    this.#signalling.add(stream);
    stream.afterIdle(() => {
      this.#signalling.delete(stream);
      releaseAll([() => this.#endUnlessSignalled(), () => words.release()]);
    });
  }

  /**
   * Ends the timeline for all processes. CPU waits for a larger value throw PEER_GONE; streams
   * continue.
   *
   * WHY: it waits for streams that still have to signal, because a later signal would overwrite the
   * end.
   */
  protected end(): void {
    this.#ending = true;
    try {
      this.settle();
    } catch (error) {
      // Users of a lost device get DEVICE_LOST elsewhere. The timeline ends with its streams or
      // with this process.
      if (!hasCode(error, "DEVICE_LOST")) throw error;
    }
    this.#endUnlessSignalled();
  }

  /**
   * Checks whether the streams that still have to signal it are idle. A closed timeline ends with
   * the last of them.
   * @internal
   */
  settle(): void {
    for (const stream of [...this.#signalling]) stream.settle();
  }

  #endUnlessSignalled(): void {
    if (!this.#ending || this.#signalling.size > 0) return;
    this.#ending = false;
    poison(this.line);
    this.onClose();
  }
}

/** A timeline of another process, which can be waited for but not signalled. */
export class ImportedTimeline extends AnyTimeline {
  protected end(): void {
    this.onClose();
  }
}
