/** Looks on at a channel without taking part: nobody waits for it, and it takes no place. */

import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { SharedWords } from "../gpu/shared-words.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { readerStates, type WhenFull, type WhenWriterGone } from "../ring/channel-layout.js";
import { ControlWords, type WriterState } from "../ring/control-words.js";
import { PageWords } from "../ring/page-words.js";
import type { ChannelShape } from "./channel-parts.js";

export interface ChannelReaderStatistics {
  readonly place: number;
  readonly mayBeOvertaken: boolean;
  readonly asleep: boolean;
  /** Its words made no sense, and the writer looks at it no more. */
  readonly expelled: boolean;
  /** Messages that were committed and that it has not given back. */
  readonly behind: number;
  readonly received: number;
  readonly missed: number;
}

export interface ChannelStatistics {
  /** `open`: it has a writer; `awaited`: another is waited for; `closed`: it has ended; `gone`: its writer died. */
  readonly writer: Exclude<WriterState, "none">;
  /** Counts writers, from 1. */
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

export class ChannelObserver {
  readonly label: string;
  readonly #shape: ChannelShape;
  readonly #words: ControlWords;
  readonly #pages: readonly PageWords[];
  readonly #files: readonly SharedWords[];
  readonly #onClose: () => void;
  #open = true;

  /**
   * The descriptors, of the control file and of each page, stay the caller's.
   * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
   */
  constructor(label: string, shape: ChannelShape, fds: readonly OwnedFd[], onClose: () => void) {
    this.label = label;
    this.#shape = shape;
    this.#onClose = onClose;
    this.#files = acquireIn((scope) => fds.map((fd) => scope.own(SharedWords.import(fd), (file) => file.release())));
    const [control, ...pages] = this.#files as [SharedWords, ...SharedWords[]];
    this.#words = acquireIn((scope) => {
      for (const file of this.#files) scope.defer(() => file.release());
      return ControlWords.open(label, control.cpu.buffer, control.byteLength, shape);
    });
    this.#pages = pages.map((page) => new PageWords(page.cpu.buffer));
  }

  /** As it is now; the counts of a busy channel are of slightly different moments. @throws CLOSED */
  statistics(): ChannelStatistics {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot look at channel "${this.label}": it was closed`);
    const { dtype, shape, slots, slotBytes, metaBytesMax, readersMax, whenFull, whenWriterGone } = this.#shape;
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
      readers: this.#pages.flatMap((page, place) =>
        page.state === readerStates.attached ? [this.#reader(page, place)] : [],
      ),
    };
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([...this.#files.map((file) => () => file.release()), this.#onClose]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #reader(page: PageWords, place: number): ChannelReaderStatistics {
    const { mayBeOvertaken, asleep, released, received, missed, lease } = page;
    return {
      place,
      mayBeOvertaken: mayBeOvertaken || this.#shape.whenFull === "drop-oldest",
      asleep: (asleep & 1) === 1,
      expelled: lease !== 0 && this.#words.expelled(place) === lease,
      behind: Math.max(0, this.#words.published - released),
      received,
      missed,
    };
  }
}
