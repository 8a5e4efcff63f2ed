/**
 * A timeline that several streams signal with growing values. Each stream waits for the one that
 * signalled before, so a value says that all earlier ones were reached.
 */
import { hasCode } from "../base/errors.js";
import type { SharedWords } from "../gpu/order/shared-words.js";
import type { Stream } from "../gpu/order/stream.js";
import { Timeline } from "../gpu/order/timeline.js";

/** How often to ask the streams after the close, when nobody else does. */
const LOOK_MS = 2;

export class OrderedTimeline {
  readonly timeline: Timeline;
  readonly #words: SharedWords;
  readonly #byteOffset: number;
  readonly #onClose: () => void;
  #ended = false;
  #last: { readonly stream: Stream; value: number } | undefined;

  /**
   * Takes over one use of the words.
   * @param onClose called once, when the timeline has ended for everybody
   */
  constructor(label: string, words: SharedWords, byteOffset: number, onClose: () => void) {
    this.timeline = new Timeline(label, words, byteOffset, { onClose: () => this.#onEnd() });
    this.#onClose = onClose;
    this.#words = words;
    this.#byteOffset = byteOffset;
  }

  /**
   * Enqueues: the timeline reaches this value when the stream and all earlier signals get there.
   */
  signal(stream: Stream, value: number): void {
    const last = this.#last;
    if (!stream.open) {
      this.#signalInPlaceOf(value, last?.stream);
      return;
    }
    if (last?.stream === stream) {
      stream.signal(this.timeline, value);
      last.value = value;
      return;
    }
    if (last !== undefined) this.waitOn(stream, last.value);
    stream.signal(this.timeline, value);
    this.#last = { stream, value };
  }

  /** A closed stream has done its work, but the work of other streams still comes first. */
  #signalInPlaceOf(value: number, other: Stream | undefined): void {
    if (other?.open) this.signal(other, value);
    else this.timeline.signal(value);
  }

  /** Enqueues: the stream waits until this value is signalled. */
  waitOn(stream: Stream, value: number): void {
    if (this.#last === undefined || this.#last.stream === stream) return;
    if (this.timeline.read({ evenIfEnded: true }) < BigInt(value))
      enqueueWait(stream, this.#words, this.#byteOffset, value);
  }

  /**
   * The timeline ends only after this stream's work so far, although the stream signals nothing
   * more.
   */
  endAfter(stream: Stream): void {
    if (stream.open) this.timeline.signalledBy(stream);
  }

  /**
   * Ends it when all streams have signalled. Nobody else may ask the streams after this, so a timer
   * asks them. The timer does not keep the process alive.
   */
  close(): void {
    this.timeline.close();
    if (this.#ended) return;
    const looking = setInterval(() => {
      try {
        this.settle();
      } catch (error) {
        // WHY it never ends then: a device that failed may still write. The slots are free when
        // this process ends.
        clearInterval(looking);
        // The loss of a device is reported to the code that computes there.
        if (hasCode(error, "DEVICE_LOST")) return;
        process.emitWarning(
          `Streams of "${this.timeline.label}" cannot be asked any more: ${String(error)}`,
        );
      }
      if (this.#ended) clearInterval(looking);
    }, LOOK_MS);
    looking.unref();
  }

  /** Checks whether the streams are done. */
  settle(): void {
    if (!this.#ended) this.timeline.settle();
  }

  #onEnd(): void {
    this.#ended = true;
    this.#onClose();
  }
}

/**
 * Enqueues a wait for a word of another participant.
 * WHY not `Stream.wait`: if that participant has ended there is nothing to wait for, and no error.
 */
export function enqueueWait(
  stream: Stream,
  words: SharedWords,
  byteOffset: number,
  value: number,
): void {
  const pointer = words.pointerOn(stream.device) + BigInt(byteOffset);
  stream.hold(words);
  stream.device.driver.waitWord(stream.handle, pointer, value);
}
