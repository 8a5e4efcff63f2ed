/** Observes a channel without a seat. The writer does not wait for it. */

import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { Mapping } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import {
  controlByteLength,
  PAGE_BYTES,
  POSITIONS_MAX,
  readerStates,
  type WhenFull,
  type WhenWriterGone,
} from "../ring/channel-layout.js";
import { openControlFile } from "../ring/control-file.js";
import { type ControlWords, contradictionOf, type WriterState } from "../ring/control-words.js";
import { PageWords } from "../ring/page-words.js";
import { type SlotUse, slotUseOf } from "../ring/slot-use.js";
import type { ChannelShape } from "./channel-parts.js";

export type { SlotUse };

export interface ChannelReaderStatistics {
  readonly place: number;
  readonly lossy: boolean;
  readonly asleep: boolean;
  /** Its words made no sense, so the writer ignores it. */
  readonly expelled: boolean;
  /** Messages that were committed and that it has not given back. */
  readonly behind: number;
  readonly received: number;
  readonly missed: number;
}

export interface ChannelStatistics {
  /**
   * `open` has a writer, `awaited` waits for the next one, `closed` has ended, `gone` lost its
   * writer.
   */
  readonly writer: Exclude<WriterState, "none">;
  /** The number of writers so far, from 1. */
  readonly writers: number;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly slots: number;
  readonly slotBytes: number;
  readonly metaBytesMax: number;
  readonly readersMax: number;
  readonly whenFull: WhenFull;
  readonly whenWriterGone: WhenWriterGone;
  readonly committed: number;
  readonly dropped: number;
  readonly readers: readonly ChannelReaderStatistics[];
}

/** The header of a message, as an observer sees it. */
export interface ObservedMessage {
  /** When it was committed, in Unix milliseconds, by the writer's clock. */
  readonly timestampMs: number;
  readonly byteLength: number;
  /** A copy of its beginning. */
  readonly meta: Uint8Array;
}

export class ChannelObserver {
  readonly label: string;
  readonly #shape: ChannelShape;
  readonly #words: ControlWords;
  readonly #pages: readonly PageWords[];
  readonly #mappings: readonly Mapping[];
  readonly #onClose: () => void;
  #open = true;

  /**
   * Takes the descriptors of the control file and of each page, whose lengths and seals were
   * checked. The caller keeps them, and may close them.
   * @throws PROTOCOL_MISMATCH
   */
  constructor(label: string, shape: ChannelShape, fds: readonly OwnedFd[], onClose: () => void) {
    this.label = label;
    this.#shape = shape;
    this.#onClose = onClose;
    const [controlFd, ...pageFds] = fds as [OwnedFd, ...OwnedFd[]];
    const controlBytes = controlByteLength(shape);
    [this.#words, this.#pages, this.#mappings] = acquireIn((scope) => {
      const map = (fd: OwnedFd, byteLength: number) =>
        scope.own(Mapping.shared(fd, byteLength, "read"), (mapping) => mapping.close());
      const control = map(controlFd, controlBytes);
      const pages = pageFds.map((fd) => map(fd, PAGE_BYTES));
      const { buffer } = control.view(0, controlBytes);
      const words = openControlFile(label, buffer, controlBytes, shape);
      const pageWords = pages.map((page) => new PageWords(page.view(0, PAGE_BYTES).buffer));
      return [words, pageWords, [control, ...pages]];
    });
  }

  /**
   * The state now. In a busy channel the counts are of slightly different moments. @throws CLOSED
   */
  statistics(): ChannelStatistics {
    this.#checkOpen();
    const { dtype, shape, slots, slotBytes, metaBytesMax, readersMax, whenFull, whenWriterGone } =
      this.#shape;
    const { sequence: committed, dropped, epoch, state } = this.#words;
    return {
      writer: state === "none" ? "gone" : state,
      writers: epoch + 1,
      dtype,
      shape,
      slots,
      slotBytes,
      metaBytesMax,
      readersMax,
      whenFull,
      whenWriterGone,
      committed,
      dropped,
      readers: this.#pages.flatMap((page, seat) =>
        page.state === readerStates.attached ? [this.#reader(page, seat)] : [],
      ),
    };
  }

  /**
   * The latest complete messages, newest first. Leaves out those whose slots the writer may be
   * writing again.
   * @param metaBytesMax of each message. WHY: its writer chooses how much there is to copy.
   * @throws CLOSED
   * @internal
   */
  messages(countMax: number, metaBytesMax: number): ObservedMessage[] {
    this.#checkOpen();
    const words = this.#words;
    const { slots } = this.#shape;
    const found: ObservedMessage[] = [];
    const { begin, end } = this.#latest(countMax);
    for (let position = end - 1; position >= begin; position -= 1) {
      const slot = position % slots;
      if (!words.isCommitted(slot, position)) continue;
      const header = words.header(slot);
      if (contradictionOf(header, words.facts, position) !== undefined) continue;
      const meta = words.meta(slot, Math.min(header.metaBytes, metaBytesMax)).slice();
      // SYNC: after the copy. The writer raises the limit before it writes a header.
      if (words.limit > position + slots || !words.isCommitted(slot, position)) break;
      const { timestampMs, byteLength } = header;
      found.push({ timestampMs, byteLength, meta });
    }
    return found;
  }

  /**
   * Who still needs which slots.
   * @param columnsMax more slots than this share columns
   * @throws CLOSED
   * @internal
   */
  slotUse(columnsMax: number): SlotUse {
    this.#checkOpen();
    return slotUseOf(this.#words, this.#pages, columnsMax);
  }

  /**
   * The mean size of the latest messages; undefined before the first one. It may mix a message with
   * the next one in the same slot.
   * @throws CLOSED
   * @internal
   */
  meanByteLength(countMax: number): number | undefined {
    this.#checkOpen();
    const words = this.#words;
    const { slots, slotBytes } = this.#shape;
    const { begin, end } = this.#latest(countMax);
    let [sum, count] = [0, 0];
    for (let position = begin; position < end; position += 1) {
      const slot = position % slots;
      if (words.generation(slot) === 0) continue;
      sum += Math.min(slotBytes, words.header(slot).byteLength);
      count += 1;
    }
    return count === 0 ? undefined : sum / count;
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([...this.#mappings.map((mapping) => () => mapping.close()), this.#onClose]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (this.#open) return;
    throw new CudaIpcError("CLOSED", `Cannot look at channel "${this.label}": it was closed`);
  }

  /** The latest positions, at most as many as slots. */
  #latest(countMax: number): { readonly begin: number; readonly end: number } {
    // WHY a limit: beyond 2^53 a position plus one is the same number, and a loop never ends.
    const end = Math.min(this.#words.published, POSITIONS_MAX + 1);
    const begin = end - Math.min(this.#shape.slots, countMax);
    return { begin: Math.max(this.#words.facts.firstPosition, begin), end };
  }

  #reader(page: PageWords, seat: number): ChannelReaderStatistics {
    const { lossy, asleep, released, received, missed, lease } = page;
    return {
      place: seat,
      lossy: lossy || this.#shape.whenFull === "drop-oldest",
      asleep: (asleep & 1) === 1,
      expelled: lease !== 0 && this.#words.expelled(seat) === lease,
      behind: Math.max(0, this.#words.published - released),
      received,
      missed,
    };
  }
}
