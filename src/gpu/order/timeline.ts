/** The timelines of this process, which signals them, and imported ones. See any-timeline.ts. */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { checkValue, liveValue, poison, storeValue } from "../../base/timeline-line.js";
import { reopenReadOnly } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { AnyTimeline, type Surroundings } from "./any-timeline.js";
import type { SharedWords, TimelineLocation } from "./shared-words.js";
import type { Stream } from "./stream.js";

/** A timeline that this process signals. */
export class Timeline extends AnyTimeline {
  /** Streams that may still have to signal it. */
  readonly #signalling = new Set<Stream>();
  readonly #awaitsOwner: boolean;
  #ending = false;

  constructor(label: string, words: SharedWords, byteOffset: number, around: Surroundings = {}) {
    super(label, words, byteOffset, around);
    this.#awaitsOwner = around.awaitsOwner ?? false;
  }

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
    if (!this.#awaitsOwner) poison(this.line);
    this.onClose();
  }
}

/** A timeline of another process, which can be waited for but not signalled. */
export class ImportedTimeline extends AnyTimeline {
  protected end(): void {
    this.onClose();
  }
}
