/**
 * A timeline that several streams signal with values that grow: each stream waits for the one that signalled before, so that a value
 * says that all before it were reached.
 */
import { hasCode } from "../base/errors.js";
import { aStream } from "../gpu/option-checks.js";
import type { SharedWords } from "../gpu/shared-words.js";
import type { Stream } from "../gpu/stream.js";
import { Timeline } from "../gpu/timeline.js";

/** How often to look whether streams are done, once nobody else asks them. */
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
   * @param onClose called once when it has ended for everybody
   */
  constructor(label: string, words: SharedWords, byteOffset: number, onClose: () => void) {
    this.timeline = new Timeline(label, words, byteOffset, { onClose: () => this.#onEnd() });
    this.#onClose = onClose;
    this.#words = words;
    this.#byteOffset = byteOffset;
  }

  /** Enqueues: the timeline gets this value once the stream, and all that signalled before, are there. */
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

  /** WHY: a stream that was closed has done its work; what others have to do comes first all the same. */
  #signalInPlaceOf(value: number, other: Stream | undefined): void {
    if (other?.open) this.signal(other, value);
    else this.timeline.signal(value);
  }

  /** Enqueues: the stream goes on once this value was signalled. */
  waitOn(stream: Stream, value: number): void {
    if (this.#last === undefined || this.#last.stream === stream) return;
    if (this.timeline.value < BigInt(value)) enqueueWait(stream, this.#words, this.#byteOffset, value);
  }

  /** It will not end before this stream has done what was given to it, although no signal of it is to come. */
  endAfter(stream: Stream): void {
    if (stream.open) this.timeline.signalledBy(stream);
  }

  /**
   * Ends it once all streams have signalled. WHY asked again and again: nobody else may ever ask them, and others would wait for what they
   * hold. The process may end meanwhile.
   */
  close(): void {
    this.timeline.close();
    if (this.#ended) return;
    const looking = setInterval(() => {
      try {
        this.settle();
      } catch (error) {
        // WHY no end: what a device that failed still writes is not known. What others wait for is theirs when this process ends.
        clearInterval(looking);
        // WHY not of a lost device: whoever computes there is told.
        if (hasCode(error, "DEVICE_LOST")) return;
        process.emitWarning(`Streams of "${this.timeline.label}" cannot be asked any more: ${String(error)}`);
      }
      if (this.#ended) clearInterval(looking);
    }, LOOK_MS);
    looking.unref();
  }

  /** Looks whether the streams are done by now. */
  settle(): void {
    if (!this.#ended) this.timeline.settle();
  }

  #onEnd(): void {
    this.#ended = true;
    this.#onClose();
  }
}

/** @throws TypeError for what is no stream */
export function checkStream(stream: Stream | undefined): Stream | undefined {
  if (stream !== undefined) aStream("stream", stream);
  return stream;
}

/**
 * Enqueues a wait for a word of another participant. WHY not `Stream.wait`: the end of that participant is no failure here, it only means
 * that there is nothing to wait for any more.
 */
export function enqueueWait(stream: Stream, words: SharedWords, byteOffset: number, value: number): void {
  const pointer = words.pointerOn(stream.device) + BigInt(byteOffset);
  stream.hold(words);
  stream.device.driver.waitWord(stream.handle, pointer, value);
}
