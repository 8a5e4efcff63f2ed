/** Where the messages of `channel send` come from, and what a channel for them is like. */
import { type DType, dtypeFacts } from "../../array/dtype.js";
import type { FileSection } from "../../gpu/file-transfer.js";

/** Of a slot, and so of the largest message. */
export interface SlotFacts {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** What the command line says of it, where it says anything. */
export interface AskedSlot {
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
  readonly byteLength?: number | undefined;
}

export interface OutgoingMessage {
  /** In an error: `"a.npy"`, `line 7 of standard input`. */
  readonly origin: string;
  readonly byteLength: number;
  /** Of an array; other messages are bytes of whatever the channel has. */
  readonly array?: SlotFacts | undefined;
  /** Bytes that are valid until the next message is asked for, or where they are in a file. */
  readonly data: Uint8Array | FileSection;
}

export interface MessageSource {
  readonly slot: SlotFacts;
  /** How many there will be; undefined where nobody knows. */
  readonly total: number | undefined;
  messages(): AsyncGenerator<OutgoingMessage, void, undefined>;
  /** Lets go of what it has open; needed where its messages were not asked for. */
  close(): Promise<void>;
}

/** Room for so many bytes. */
export function bytesAs(dtype: DType, byteLength: number): SlotFacts {
  return { dtype, shape: [Math.ceil(byteLength / dtypeFacts(dtype).byteSize)] };
}

/** What is asked for goes before what was found in the first message. */
export function chosenSlot(asked: AskedSlot, found: SlotFacts): SlotFacts {
  if (asked.byteLength !== undefined) return { dtype: "uint8", shape: [asked.byteLength] };
  if (asked.shape !== undefined) return { dtype: asked.dtype ?? found.dtype, shape: asked.shape };
  return asked.dtype === undefined ? found : { ...found, dtype: asked.dtype };
}
