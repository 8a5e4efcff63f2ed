/**
 * The shared memory that orders a channel. The writer's words are in one memory file, which others
 * map for reading only. Each reader has a page of its own. The slots' data is in other memory.
 * All numbers are little-endian. A position counts slots from the first one ever written, and lies
 * in slot `position % slots`.
 *
 * The control file. The writer writes it. If the writer is gone, the hub does:
 *
 *   byte 0     4        8         12      16           20             24          32
 *   | "CIPC"   | "CHAN" | version | slots | readersMax | metaBytesMax | slotBytes |
 *   32           40          44             48         52               56              64     128
 *   | slotStride | headersAt | headerStride | whenFull | whenWriterGone | firstPosition | zero |
 *       Bytes 0 to 128 never change.
 *   128                                      192
 *   | published | unused                     |
 *       For new readers. Positions below `published` have a message or were passed over. A header
 *       is stored first, so headers can be one position ahead.
 *   192         200       208                256
 *   | limit     | dropped | sequence | unused |
 *       The writer may write positions below `limit` without looking at the readers again.
 *       `sequence` is the number of the next message.
 *   256         260     264                  320
 *   | state     | epoch | asleep | unused    |
 *       `epoch` counts writers. `asleep` is odd while the writer waits for its bell.
 *   320                                      832
 *   | expelled: a lease for each seat        |
 *       A reader whose words made no sense. The writer ignores it.
 *   1024                                     5120
 *   | 64 timelines                           |
 *       Timeline `epoch % 64` is the writer's "ready": the work that its streams have finished. See
 *       base/timeline-line.
 *   headersAt
 *   | the header of slot 0 | of slot 1 | ... |
 *       Each header has `headerStride` bytes.
 *
 * The header of a slot describes the last message that was committed in the slot:
 *
 *   byte 0       8          16            24           32        40      44
 *   | generation | sequence | timestampMs | byteLength | readyAt | epoch | flags |
 *   48          52     56           64         128
 *   | metaBytes | rank | passedOver | shape[8] | meta ... |
 *
 * The generation is the message's position plus one, and 0 before the first. Its store is the
 * commit. `passedOver` is the same for the last position of this slot without a message; its writer
 * left the slot unchanged. A reader polls these two words. `timestampMs` is a float64 in
 * milliseconds since 1970. `readyAt` is the value of the writer's timeline at which the data is
 * ready, or 0 if it is ready at once.
 *
 * A reader's page. Its reader writes it. Before and after the reader's time, the hub does:
 *
 *   byte 0   8       12     16                        64
 *   | lease  | state | mode | asleep | unused         |
 *   64         72                                     128
 *   | released | gpuReleased | unused                 |
 *       Positions below these are released. `gpuReleased` is the largest that streams release.
 *   128                                               192
 *   | claims[8]                                       |
 *       The slots that a lossy reader holds. Value c claims position c - 1. Value
 *       -c claims it until `done` reaches c.
 *   192        200                                    256
 *   | done: value, final                              |
 *       A timeline of the releases by the reader's streams.
 *   256        264                                    320
 *   | received | missed                               |
 *       Counters for observers.
 */

import { LINE_BYTES } from "../base/timeline-line.js";

/** "CIPC" and "CHAN" as bytes of a file. */
export const MAGIC = [0x43_50_49_43, 0x4e_41_48_43] as const;
export const CHANNEL_VERSION = 1;

export const PAGE_BYTES = 4096;
/** Successive writers use different timelines, so a wait for one is not ended by the next. */
export const READY_LINES = 64;
/** The most slots that a lossy reader holds at a time. */
export const CLAIMS = 8;
/** The largest position. Numbers are exact up to here, also with a ring's length added. */
export const POSITIONS_MAX = Number.MAX_SAFE_INTEGER - 2 ** 33;
/** The most axes of one message. */
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

/** Word in the control file: whether there is a writer, and what readers may expect. */
export const writerStates = { none: 0, open: 1, closed: 2, gone: 3, awaited: 4 } as const;

/** Word in a reader's page. */
export const readerStates = { none: 0, attached: 1, left: 2 } as const;

export const readerModes = { waitedFor: 0, lossy: 1 } as const;

/** What the writer does if no slot is free. The index is the word in the control file. */
export const whenFullPolicies = ["wait", "drop-oldest", "drop-newest", "error"] as const;

export type WhenFull = (typeof whenFullPolicies)[number];

/** What becomes of a channel whose writer is gone. The index is the word in the control file. */
export const whenWriterGonePolicies = ["end", "wait"] as const;

export type WhenWriterGone = (typeof whenWriterGonePolicies)[number];

export interface ChannelFacts {
  readonly slots: number;
  readonly readersMax: number;
  /** The most bytes of one message. */
  readonly slotBytes: number;
  /** From the start of one slot to that of the next. */
  readonly slotStride: number;
  readonly metaBytesMax: number;
  readonly whenFull: WhenFull;
  readonly whenWriterGone: WhenWriterGone;
  /** The position of the first message; only tests begin beyond 0. */
  readonly firstPosition: number;
}

export function headerStrideOf(metaBytesMax: number): number {
  return header.meta + Math.ceil(metaBytesMax / LINE_BYTES) * LINE_BYTES;
}

export function controlByteLength({
  slots,
  metaBytesMax,
}: Pick<ChannelFacts, "slots" | "metaBytesMax">): number {
  return HEADERS_AT + slots * headerStrideOf(metaBytesMax);
}

/** Slots of memory behind a channel. With "drop-newest" there is one more, for dropped messages. */
export function memorySlots({ slots, whenFull }: Pick<ChannelFacts, "slots" | "whenFull">): number {
  return whenFull === "drop-newest" ? slots + 1 : slots;
}

/** How many positions a writer reserves at each look at the readers. */
export function windowOf(slots: number): number {
  return Math.max(1, slots >> 2);
}
