/** What `channel send` sends, and what slots a channel for it needs. */
import { type DType, dtypeFacts } from "../../array/dtype.js";
import type { FileSection } from "../../gpu/transfer/file-transfer.js";

/** The dtype and shape of a slot, which holds the largest message. */
export interface SlotFacts {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** The options of the command line that describe the slots. */
export interface AskedSlot {
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
  readonly byteLength?: number | undefined;
}

export interface OutgoingMessage {
  /** Its name in errors: `"a.npy"`, `line 7 of standard input`. */
  readonly origin: string;
  readonly byteLength: number;
  /** Set if the message is an array, and not bytes. */
  readonly array?: SlotFacts | undefined;
  /** A section of a file, or bytes that are valid until the next message is asked for. */
  readonly data: Uint8Array | FileSection;
}

export interface MessageSource {
  readonly slot: SlotFacts;
  /** How many messages there will be, if known. */
  readonly total: number | undefined;
  messages(): AsyncGenerator<OutgoingMessage, void, undefined>;
  /** Closes its files. Needed if `messages()` was not read to the end. */
  close(): Promise<void>;
}

/** A slot that holds so many bytes. */
export function bytesAs(dtype: DType, byteLength: number): SlotFacts {
  return { dtype, shape: [Math.ceil(byteLength / dtypeFacts(dtype).byteSize)] };
}

/** The command line overrides what was found in the first message. */
export function chosenSlot(asked: AskedSlot, found: SlotFacts): SlotFacts {
  if (asked.byteLength !== undefined) return { dtype: "uint8", shape: [asked.byteLength] };
  if (asked.shape !== undefined) return { dtype: asked.dtype ?? found.dtype, shape: asked.shape };
  return asked.dtype === undefined ? found : { ...found, dtype: asked.dtype };
}
