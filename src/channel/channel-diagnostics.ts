/** The messages that channels publish on node:diagnostics_channel. */
import { point } from "../base/diagnostics.js";
import type { LoanedSlot } from "./loaned-slot.js";
import type { ReceivedSlot } from "./received-slot.js";

/** A slot was loaned to a writer. */
export interface LoanMessage {
  /** The name of the channel. */
  readonly name: string;
  readonly slot: LoanedSlot;
}

/** A message was committed, or dropped because no slot was free. */
export interface CommitMessage {
  readonly name: string;
  /** Undefined if it was dropped. */
  readonly sequence: number | undefined;
  readonly byteLength: number;
  /** The slot of its `LoanMessage`. */
  readonly slot: LoanedSlot;
}

/** A reader took a message. */
export interface ReceiveMessage {
  readonly name: string;
  readonly sequence: number;
  readonly byteLength: number;
  /** Messages that this reader lost before this one. */
  readonly missed: number;
  readonly slot: ReceivedSlot;
}

/** A reader released a message. */
export interface ReleaseMessage {
  readonly name: string;
  readonly sequence: number;
  /** The slot of its `ReceiveMessage`. */
  readonly slot: ReceivedSlot;
}

/** A writer found that a reader died without closing. */
export interface ReaderDiedMessage {
  readonly name: string;
  /** The number of the reader's seat, as in error messages and `channel stat`. */
  readonly seat: number;
  /** The reader's lease, as in the hub's log. */
  readonly lease: number;
}

/** A reader has read everything, and found that the writer died without closing. */
export interface WriterDiedMessage {
  readonly name: string;
  /** Messages that this reader has received. */
  readonly received: number;
}

export const points = {
  loan: point<LoanMessage>("loan"),
  commit: point<CommitMessage>("commit"),
  receive: point<ReceiveMessage>("receive"),
  release: point<ReleaseMessage>("release"),
  readerDied: point<ReaderDiedMessage>("reader-died"),
  writerDied: point<WriterDiedMessage>("writer-died"),
};
