/**
 * What one hub sends to the next that takes its place, after the answer to `takeover`: all of it in the batches of os/fd-batches.ts,
 * then a word of each side.
 *
 *   old                                               successor
 *   head (listener, lock), lines (descriptors) ---->  checks and builds, acts on nothing
 *                          <----------------- ready | failed
 *   yours (and ends) | mine (and goes on) -------->   serves | ends
 *
 * An item of a batch is lines of JSON, and the descriptors that the lines speak of, in their order. The records of the state are lines
 * as in the journal; the other kinds are here.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { BatchItem } from "../os/batch-layout.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { checked } from "../wire/codec.js";
import { requestSchema } from "../wire/messages.js";
import { sessionRecordSchema } from "./hub-records.js";

/** Told with `takeover`, so that a hub that speaks another one refuses and goes on. */
export const TAKEOVER_FORMAT = 1;

const id = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

/** The first item, with the listening socket and the lock. */
const headSchema = v.strictObject({
  t: v.literal("head"),
  pid: count,
  /** How many lines of each kind follow. */
  records: count,
  connections: count,
  memories: count,
  queued: count,
});

const lineSchema = v.variant("t", [
  /** With its socket and its process's pidfd, as far as there are such. */
  v.strictObject({
    t: v.literal("connection"),
    id,
    peer: v.strictObject({
      pid: count,
      startTicks: v.nullable(count),
      uid: count,
      gid: count,
      groups: v.array(count),
    }),
    attached: v.boolean(),
    session: v.nullable(sessionRecordSchema),
    unrestored: v.nullable(v.array(id)),
    waiting: v.array(requestSchema),
    hasSocket: v.boolean(),
    hasPidfd: v.boolean(),
  }),
  /** With the descriptors of an object. */
  v.strictObject({ t: v.literal("memory"), object: id, fds: id }),
  /** What a client has not read yet, with the descriptors that go with it; in order. */
  v.strictObject({ t: v.literal("queued"), connection: id, text: v.string(), fds: count }),
]);

const wordSchema = v.variant("op", [
  v.strictObject({ op: v.literal("ready") }),
  v.strictObject({ op: v.literal("failed"), message: v.pipe(v.string(), v.maxLength(16 * 1024)) }),
  v.strictObject({ op: v.literal("yours") }),
  v.strictObject({ op: v.literal("mine") }),
]);

export type TakeoverHead = v.InferOutput<typeof headSchema>;
export type TakeoverLine = v.InferOutput<typeof lineSchema>;
export type ConnectionLine = Extract<TakeoverLine, { t: "connection" }>;
export type TakeoverWord = v.InferOutput<typeof wordSchema>;

const LINE_KINDS: ReadonlySet<unknown> = new Set(["connection", "memory", "queued"]);
const decoder = new TextDecoder("utf-8", { fatal: true });

/** One line and the descriptors that it speaks of. */
export interface AttachedLine {
  readonly value: object;
  readonly fds: readonly OwnedFd[];
}

/** As few items as packets take, however many lines there are. */
export function* packed(lines: Iterable<AttachedLine>): Generator<BatchItem> {
  let texts: string[] = [];
  let fds: OwnedFd[] = [];
  let length = 0;
  for (const line of lines) {
    const text = JSON.stringify(line.value);
    const isFull =
      length + text.length > limits.messageBytesMax || fds.length + line.fds.length > limits.scmRightsFdsMax;
    if (isFull && texts.length > 0) {
      yield { bytes: Buffer.from(texts.join("\n")), fds };
      [texts, fds, length] = [[], [], 0];
    }
    texts.push(text);
    fds.push(...line.fds);
    length += text.length + 1;
  }
  if (texts.length > 0) yield { bytes: Buffer.from(texts.join("\n")), fds };
}

/** @throws PROTOCOL_MISMATCH */
export function checkFormat(wanted: number): void {
  if (wanted === TAKEOVER_FORMAT) return;
  const message = `Cannot hand over the hub: the successor wants format ${wanted}, this hub has format ${TAKEOVER_FORMAT}`;
  throw new CudaIpcError("PROTOCOL_MISMATCH", message);
}

/** The values of an item's lines, not yet checked. @throws INVALID_MESSAGE */
export function linesOf({ bytes }: BatchItem): unknown[] {
  try {
    return decoder
      .decode(bytes)
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
  } catch (cause) {
    throw new CudaIpcError("INVALID_MESSAGE", "Cannot take over a hub: what it sent is not lines of JSON", { cause });
  }
}

/** @throws INVALID_MESSAGE */
export function checkHead(value: unknown): TakeoverHead {
  return checked("the head of what a hub hands over", headSchema, value);
}

/** Undefined for a record of the state. @throws INVALID_MESSAGE */
export function checkLine(value: unknown): TakeoverLine | undefined {
  const kind = typeof value === "object" && value !== null && "t" in value ? value.t : undefined;
  return LINE_KINDS.has(kind) ? checked("what a hub hands over", lineSchema, value) : undefined;
}

export function encodeWord(word: TakeoverWord): Uint8Array {
  return Buffer.from(JSON.stringify(word));
}

/** @throws INVALID_MESSAGE */
export function decodeWord(bytes: Uint8Array): TakeoverWord {
  const [value] = linesOf({ bytes, fds: [] });
  return checked("a word of the other hub", wordSchema, value);
}
