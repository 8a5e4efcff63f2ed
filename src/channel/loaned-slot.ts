/** A slot that the writer may fill: committed once, or given back as if it had never been asked for. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { Stream } from "../gpu/stream.js";
import type { Meta } from "./message-meta.js";
import type { SlotMemory } from "./slot-memory.js";

export interface LoanOptions extends WaitOptions {
  /**
   * The slot is filled by this stream: it waits on the GPU for readers whose streams still use the slot. Without one it is the CPU that
   * waits for them. Give the same stream to `commit`.
   */
  readonly stream?: Stream | undefined;
}

export interface CommitOptions {
  /** Bytes, or a value that travels as JSON; at most the channel's `metaBytesMax`. */
  readonly meta?: Meta | undefined;
  /** The message is there once this stream has done what was given to it by now. Without one it is there at once. */
  readonly stream?: Stream | undefined;
  /** Of a message that does not fill its slot: its shape, of the channel's dtype. */
  readonly shape?: readonly number[] | undefined;
  /** The same in bytes, a whole number of elements, for a message without a shape of its own. */
  readonly byteLength?: number | undefined;
}

/** What the readers are told of a message, but for what only its commit tells. */
export interface PreparedMessage {
  readonly byteLength: number;
  readonly readyAt: number;
  readonly flags: number;
  readonly metaBytes: number;
}

const WHOLE_SLOT: CommitOptions = {};

/** What a slot asks of its writer. */
export interface LoanOwner {
  readonly label: string;
  /** Does all that can be refused. */
  prepare(loan: Loan, options: CommitOptions): PreparedMessage;
  /** Sends what was prepared, and returns its sequence number; undefined where it is dropped. */
  send(loan: Loan, message: PreparedMessage): number | undefined;
  abort(loan: Loan): void;
}

export interface Loan {
  readonly slot: number;
  /** What was given to `loan`: work of this stream may already write to the slot. */
  readonly stream: Stream | undefined;
  readonly dropped: boolean;
}

/** Whether nothing is said of a message: it fills its slot, and is there at once. */
export function isWholeSlot(options: CommitOptions): boolean {
  return options === WHOLE_SLOT;
}

export class LoanedSlot<D extends DType = DType> {
  readonly #loan: Loan;
  readonly #owner: LoanOwner;
  readonly #memory: SlotMemory<D>;
  #array: DeviceArray<D> | undefined;
  #open = true;

  /** Use `writer.loan()`. */
  constructor(owner: LoanOwner, memory: SlotMemory<D>, loan: Loan) {
    this.#owner = owner;
    this.#memory = memory;
    this.#loan = loan;
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether nobody will see it: every slot was taken, and the channel drops the newest. What is written to it goes nowhere. */
  get willBeDropped(): boolean {
    return this.#loan.dropped;
  }

  /** The whole slot, to be filled. It ends with the slot. */
  get array(): DeviceArray<D> {
    this.#checkOpen("use");
    this.#array ??= this.#memory.array(this.#loan.slot, undefined);
    return this.#array;
  }

  /**
   * The whole slot as bytes, on the host device. Nothing holds back who goes on writing to them after the commit.
   * @throws UNSUPPORTED on a GPU
   */
  get bytes(): Uint8Array {
    this.#checkOpen("use");
    return this.#memory.bytes(this.#loan.slot, this.#memory.facts.slotBytes);
  }

  /**
   * Hands the message to the readers. Returns its sequence number, or undefined where it was dropped.
   * Where it throws, nothing was sent, and the slot can still be committed.
   * @throws CLOSED where it was committed before or its scope has ended, MESSAGE_TOO_LARGE, RangeError
   */
  commit(options: CommitOptions = WHOLE_SLOT): number | undefined {
    this.#checkOpen("commit");
    const message = this.#owner.prepare(this.#loan, options);
    // WHY before: once it is sent it must not be sent again, whatever fails then.
    this.#end();
    return this.#owner.send(this.#loan, message);
  }

  /** Gives the slot back without a message; nothing where it was committed. */
  close(): void {
    if (!this.#open) return;
    this.#end();
    this.#owner.abort(this.#loan);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #end(): void {
    this.#open = false;
    this.#array?.close();
  }

  #checkOpen(verb: string): void {
    if (this.#open) return;
    throw new CudaIpcError(
      "CLOSED",
      `Cannot ${verb} a slot of channel "${this.#owner.label}": it was committed or given back`,
    );
  }
}
