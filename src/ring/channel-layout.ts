/**
 * Where everything lies in the shared memory that orders a channel: the writer's words in one memory file, which others map for reading
 * alone, and the words of each reader in a page of its own. The data of the slots are in other memory. All numbers are little-endian;
 * a position counts slots from the first that was ever written, and lies in slot `position % slots`.
 *
 * The control file, written by the writer (and by the hub when the writer is gone):
 *
 *   byte 0      4       8         12      16           20             24          32           40          44             48         52               56              64   128
 *   | "CIPC"   | "CHAN" | version | slots | readersMax | metaBytesMax | slotBytes | slotStride | headersAt | headerStride | whenFull | whenWriterGone | firstPosition | zero |   never changes
 *   128                                     192
 *   | published | unused                     |     positions below have a message or were passed over. For who comes: headers say it before, and so of one position more
 *   192         200       208               256
 *   | limit     | dropped | sequence | unused |    the writer may write positions below `limit` without looking at the readers again; `sequence` is that of the next message
 *   256         260      264                320
 *   | state     | epoch   | asleep | unused  |     `epoch` counts writers; `asleep` is odd while the writer waits for its bell
 *   320                                     832
 *   | expelled: a lease for each place       |     a reader whose words made no sense, which is no longer looked at
 *   1024                                    5120
 *   | 64 timelines, the one of `epoch % 64` is the writer's "ready": what its streams have finished; see base/timeline-line |
 *   headersAt
 *   | the header of slot 0 | of slot 1 | ... |     `headerStride` bytes each
 *
 * The header of a slot, of the message that was committed there last:
 *
 *   byte 0     8          16            24           32        40      44      48          52     56           64         128
 *   | generation | sequence | timestampMs | byteLength | readyAt | epoch | flags | metaBytes | rank | passedOver | shape[8] | meta ... |
 *
 * The generation is the message's position plus one, and 0 before the first: its store is the commit. `passedOver` is the same of the last
 * position here that has no message, whose writer left the slot as it was. A reader looks at these two alone until one of them is what it
 * waits for. `timestampMs` is a float64, milliseconds since 1970; `readyAt` is the value of the writer's timeline from which on the data
 * are there, 0 where they are there at once.
 *
 * A reader's page, written by that reader (and by the hub before it has a reader and after it had one):
 *
 *   byte 0   8       12     16                        64
 *   | lease  | state | mode | asleep | unused          |
 *   64         72                                     128
 *   | released | gpuReleased | unused                  |   positions below are given back; the largest of them that streams give back
 *   128                                               192
 *   | claims[8]                                        |   where it may be overtaken: what it holds. c: position c - 1; -c: the same, until `done` is c
 *   192        200                                    256
 *   | done: a timeline of what its streams have given back: value, final |
 *   256        264                                    320
 *   | received | missed                                |   for those who look on
 */

import { LINE_BYTES } from "../base/timeline-line.js";

/** "CIPC" and "CHAN" as bytes of a file. */
export const MAGIC = [0x43_50_49_43, 0x4e_41_48_43] as const;
export const CHANNEL_VERSION = 1;

export const PAGE_BYTES = 4096;
/** Timelines of successive writers, so that what waits for an earlier one is not woken by a later one. */
export const READY_LINES = 64;
/** Slots that a reader holds at a time where it may be overtaken. */
export const CLAIMS = 8;
/** No position is beyond: numbers are exact up to here, and with a ring's length added. */
export const POSITIONS_MAX = Number.MAX_SAFE_INTEGER - 2 ** 33;
/** Axes of one message. */
export const RANK_MAX = 8;

/** Byte offsets in the control file. */
export const control = {
  magic: 0,
  version: 8,
  slots: 12,
  readersMax: 16,
  metaBytesMax: 20,
  slotBytes: 24,
  slotStride: 32,
  headersAt: 40,
  headerStride: 44,
  whenFull: 48,
  whenWriterGone: 52,
  firstPosition: 56,
  published: 128,
  limit: 192,
  dropped: 200,
  sequence: 208,
  state: 256,
  epoch: 260,
  asleep: 264,
  expelled: 320,
  ready: 1024,
} as const;

export const HEADERS_AT = control.ready + READY_LINES * LINE_BYTES;

/** Byte offsets in the header of a slot. */
export const header = {
  generation: 0,
  sequence: 8,
  timestampMs: 16,
  byteLength: 24,
  readyAt: 32,
  epoch: 40,
  flags: 44,
  metaBytes: 48,
  rank: 52,
  passedOver: 56,
  shape: 64,
  meta: 128,
} as const;

export const flags = {
  /** The meta bytes are JSON. */
  json: 1,
  /** The message has a shape of its own: `rank` and `shape` say which. */
  shaped: 2,
  /** Its writer died before the GPU had finished it. */
  lost: 4,
} as const;

/** Byte offsets in a reader's page. */
export const page = {
  lease: 0,
  state: 8,
  mode: 12,
  asleep: 16,
  released: 64,
  gpuReleased: 72,
  claims: 128,
  done: 192,
  received: 256,
  missed: 264,
} as const;

/** Of the control file: whether there is a writer, and what readers may expect. */
export const writerStates = { none: 0, open: 1, closed: 2, gone: 3, awaited: 4 } as const;

/** Of a reader's page. */
export const readerStates = { none: 0, attached: 1, left: 2 } as const;

export const readerModes = { waitedFor: 0, mayBeOvertaken: 1 } as const;

/** What the writer does where no slot is free; the place in the list is the word in the control file. */
export const whenFullPolicies = ["wait", "drop-oldest", "drop-newest", "error"] as const;

export type WhenFull = (typeof whenFullPolicies)[number];

/** What becomes of a channel whose writer is gone; the place in the list is the word in the control file. */
export const whenWriterGonePolicies = ["end", "wait"] as const;

export type WhenWriterGone = (typeof whenWriterGonePolicies)[number];

export interface ChannelFacts {
  readonly slots: number;
  readonly readersMax: number;
  /** Of one message at most. */
  readonly slotBytes: number;
  /** From the start of one slot to that of the next. */
  readonly slotStride: number;
  readonly metaBytesMax: number;
  readonly whenFull: WhenFull;
  readonly whenWriterGone: WhenWriterGone;
  /** Of the first message; 0 but in tests. */
  readonly firstPosition: number;
}

export function headerStrideOf(metaBytesMax: number): number {
  return header.meta + Math.ceil(metaBytesMax / LINE_BYTES) * LINE_BYTES;
}

export function controlByteLength({ slots, metaBytesMax }: Pick<ChannelFacts, "slots" | "metaBytesMax">): number {
  return HEADERS_AT + slots * headerStrideOf(metaBytesMax);
}

/** Slots of memory behind a channel: where the newest is dropped there is one more, for what is dropped. */
export function memorySlots({ slots, whenFull }: Pick<ChannelFacts, "slots" | "whenFull">): number {
  return whenFull === "drop-newest" ? slots + 1 : slots;
}

/** How many positions a writer takes at a time when it has looked at the readers. */
export function windowOf(slots: number): number {
  return Math.max(1, slots >> 2);
}
