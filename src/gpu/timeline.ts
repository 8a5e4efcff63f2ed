/**
 * A 64-bit counter in shared memory that only grows: streams and CPUs of all processes wait for it, and its owner signals it, by a
 * stream or by the CPU. It orders work between processes at a fraction of what events cost.
 *
 * - Values are from 0 to 2^63 - 2, and every signal is larger than the one before: that is the owner's to keep.
 * - A timeline that ends (closed, or its owner died) releases everybody who waits for it. A wait of the CPU for a value that was not
 *   reached then throws PEER_GONE; a stream goes on, and its `synchronize()` throws PEER_GONE.
 * - Make, import and use timelines on a device before its streams wait for anything: their first use registers memory with the driver.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import {
  checkReached,
  checkValue,
  isPlace,
  LINE_BYTES,
  type Line,
  lineAt,
  liveValue,
  poison,
  stateOf,
  storeValue,
} from "../base/timeline-line.js";
import type { DevicePointer } from "../driver/gpu-driver.js";
import { reopenReadOnly } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";
import type { SharedWords } from "./shared-words.js";
import type { Stream } from "./stream.js";

export interface TimelineWaitOptions extends WaitOptions {
  /** How long to ask without giving the event loop a turn; 20 microseconds by default. */
  readonly spinMs?: number | undefined;
}

/** Where a timeline lies in the memory behind its descriptor; travels beside the descriptor. */
export interface TimelinePlace {
  readonly byteOffset: number;
}

interface Surroundings {
  /** Called once when it is closed, and for a timeline of this process has ended. */
  readonly onClose?: (() => void) | undefined;
  /** Whose loss ends waits by the CPU. */
  readonly device?: Device | undefined;
}

/** What can be waited for: a timeline of this process or of another. */
export abstract class AnyTimeline {
  readonly label: string;
  readonly byteOffset: number;
  protected readonly words: SharedWords;
  protected readonly line: Line;
  protected readonly onClose: () => void;
  readonly #home: Device | undefined;
  /** The device that asked last for the address there, and the address: most timelines are used on one device. */
  #device: Device | undefined;
  #pointer = 0n;
  #open = true;

  /** Takes over one use of the words. Use `device.createTimeline()` and `device.importTimeline()`. */
  constructor(label: string, words: SharedWords, byteOffset: number, { onClose, device }: Surroundings = {}) {
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

  /** What was reached so far. */
  get value(): bigint {
    this.checkOpen();
    return stateOf(this.line).value;
  }

  /** Whether it will never grow again. */
  get ended(): boolean {
    this.checkOpen();
    return stateOf(this.line).ended;
  }

  /**
   * Whether the value was reached, asked without waiting.
   * @throws PEER_GONE where it never will be
   */
  reached(value: number | bigint): boolean {
    this.checkOpen();
    // WHY as a bigint: what the line holds is one, and comparing it with a number costs more than making one of the number.
    const wanted = BigInt(checkValue("Value of a timeline", value));
    // WHY apart: a loop that spins asks this again and again, and makes no object of each answer.
    const found = liveValue(this.line);
    return found === undefined ? checkReached(this.label, stateOf(this.line), wanted) : found >= wanted;
  }

  /**
   * Waits by the CPU, without a limit unless one is given.
   * @throws PEER_GONE, TIMEOUT, ABORTED; CLOSED where it is closed here meanwhile; DEVICE_LOST if this process's context on its
   * device is lost meanwhile
   */
  async wait(value: number | bigint, options: TimelineWaitOptions = {}): Promise<void> {
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

  /** Registers the timeline with a device now instead of at its first use there. */
  prepare(device: Device): void {
    this.pointerOn(device);
  }

  /** For streams. @internal */
  pointerOn(device: Device): DevicePointer {
    this.checkOpen();
    if (device !== this.#device) {
      this.#pointer = this.words.pointerOn(device) + BigInt(this.byteOffset);
      this.#device = device;
    }
    return this.#pointer;
  }

  /** Keeps the memory until `release`, whatever is closed meanwhile; for streams that wait. @internal */
  hold(): HeldTimeline {
    this.checkOpen();
    const words = this.words.retain();
    const { label, line } = this;
    return { check: (wanted) => checkReached(label, stateOf(line), wanted), release: () => words.release() };
  }

  /**
   * Of a timeline of this process: ends it for everybody, once the streams that have signals of it to come are seen idle or closed. Waits
   * of this process for it end with CLOSED.
   */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([() => this.end(), () => this.words.release()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** What has to be done before the words are given up. */
  protected abstract end(): void;

  protected checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use timeline "${this.label}": it was closed`);
  }
}

/** A timeline that a stream waits for. */
export interface HeldTimeline {
  /** @throws PEER_GONE where the value will never be reached */
  check(wanted: number | bigint): boolean;
  release(): void;
}

/** A timeline that this process signals. */
export class Timeline extends AnyTimeline {
  /** Streams that may have a signal of it to come. */
  readonly #signalling = new Set<Stream>();
  #ending = false;

  /**
   * Signals by the CPU, at once.
   * @throws RangeError where the value is not larger than the one before
   */
  signal(value: number | bigint): void {
    this.checkOpen();
    const wanted = BigInt(checkValue("Value of a timeline", value));
    const before = liveValue(this.line);
    if (before === undefined) throw new CudaIpcError("CLOSED", `Cannot signal timeline "${this.label}": it has ended`);
    if (wanted <= before) {
      throw new RangeError(
        `Signal of timeline "${this.label}": ${wanted} is not larger than ${before}, which it has reached`,
      );
    }
    storeValue(this.line, wanted);
  }

  /**
   * A descriptor of the memory, for reading alone, by which others import the timeline; the caller owns it. Send it with `place`.
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
   * A descriptor that also allows writing, for one who is to end the timeline when this process dies (`endTimelineOfDead`).
   * Its holder can spoil every timeline of this device.
   */
  exportWritableFd(): OwnedFd {
    this.checkOpen();
    return this.words.duplicateFd();
  }

  /** Where it lies behind its descriptor. */
  get place(): TimelinePlace {
    return { byteOffset: this.byteOffset };
  }

  /**
   * Keeps the memory, and the timeline from ending, until the stream is next seen idle or is closed; for streams that signal.
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
   * Ends the timeline for everybody: all who wait for a value beyond the one reached get PEER_GONE, streams go on.
   * WHY it may come later: a signal that a stream has still to give would undo the end.
   */
  protected end(): void {
    this.#ending = true;
    try {
      this.settle();
    } catch (error) {
      // WHY no failure of this: whoever computes on a lost device is told. It ends for others with its streams, or with this process.
      if (!hasCode(error, "DEVICE_LOST")) throw error;
    }
    this.#endUnlessSignalled();
  }

  /**
   * Looks whether the streams that have signals of it to come are idle by now: once it was closed it ends with the last.
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

/** A timeline of another process. It is waited for and not signalled. */
export class ImportedTimeline extends AnyTimeline {
  protected end(): void {
    this.onClose();
  }
}

/** @throws INVALID_DESCRIPTOR where no timeline can lie there */
export function checkPlace(label: string, { byteOffset }: TimelinePlace, byteLength: number): void {
  if (isPlace(byteOffset, byteLength)) return;
  throw new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot import timeline "${label}": it claims byte ${byteOffset} of ${byteLength}, wanted a multiple of ${LINE_BYTES} within`,
  );
}
