/** Observes a channel without a seat. The writer does not wait for it. */

import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { SharedWords } from "../gpu/order/shared-words.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { readerStates, type WhenFull, type WhenWriterGone } from "../ring/channel-layout.js";
import { openControlFile } from "../ring/control-file.js";
import type { ControlWords, WriterState } from "../ring/control-words.js";
import { PageWords } from "../ring/page-words.js";
import type { ChannelShape } from "./channel-parts.js";

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

export class ChannelObserver {
  readonly label: string;
  readonly #shape: ChannelShape;
  readonly #words: ControlWords;
  readonly #pages: readonly PageWords[];
  readonly #files: readonly SharedWords[];
  readonly #onClose: () => void;
  #open = true;

  /**
   * Takes the descriptors of the control file and of each page. The caller keeps them.
   * @throws INVALID_DESCRIPTOR, PROTOCOL_MISMATCH
   */
  constructor(label: string, shape: ChannelShape, fds: readonly OwnedFd[], onClose: () => void) {
    this.label = label;
    this.#shape = shape;
    this.#onClose = onClose;
    this.#files = acquireIn((scope) =>
      fds.map((fd) => scope.own(SharedWords.import(fd), (file) => file.release())),
    );
    const [control, ...pages] = this.#files as [SharedWords, ...SharedWords[]];
    this.#words = acquireIn((scope) => {
      for (const file of this.#files) scope.defer(() => file.release());
      return openControlFile(label, control.cpu.buffer, control.byteLength, shape);
    });
    this.#pages = pages.map((page) => new PageWords(page.cpu.buffer));
  }

  /**
   * The state now. In a busy channel the counts are of slightly different moments. @throws CLOSED
   */
  statistics(): ChannelStatistics {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot look at channel "${this.label}": it was closed`);
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

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([...this.#files.map((file) => () => file.release()), this.#onClose]);
  }

  [Symbol.dispose](): void {
    this.close();
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
