/**
 * The messages between two bridges. They agree over NATS to make a link, with one request and one
 * answer. Everything else goes over UCX, in sealed frames; see src/bridge/link/frame-seal.ts.
 */
import * as v from "valibot";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { channelContent } from "./channel-content.js";
import { checked } from "./codec.js";
import { descriptorSchema } from "./descriptor.js";
import { MACHINES_VERSION, otherVersionOf, VersionMismatch } from "./machines-version.js";
import { refusalSchema } from "./peer-messages.js";
import { count, goodName, positive } from "./schemas.js";

const head = { v: v.literal(MACHINES_VERSION) };
const word = v.pipe(v.string(), v.maxLength(512));
const base64 = (bytesMax: number) =>
  v.pipe(
    v.string(),
    v.maxLength(Math.ceil(bytesMax / 3) * 4),
    v.regex(/^[A-Za-z0-9+/]+={0,2}$/, "not base64"),
  );

const meeting = {
  ...head,
  machine: goodName,
  instance: v.pipe(v.string(), v.uuid()),
  ucx: word,
  /** Of the UCX worker that serves this link alone. */
  address: base64(limits.ucxAddressBytesMax),
  /** 32 random bytes. The keys of the link are made of those of both sides. */
  secret: v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]{43}=$/, "not 32 bytes in base64")),
};

export const linkRequestSchema = v.strictObject({ ...meeting, op: v.literal("link") });
export const linkReplySchema = v.union([
  v.strictObject({ ...meeting, ok: v.literal(true) }),
  v.strictObject({ ...refusalSchema.entries, ...head }),
]);

export type LinkRequest = v.InferOutput<typeof linkRequestSchema>;
export type LinkReply = v.InferOutput<typeof linkReplySchema>;

const id = { id: positive };
/** A tag of one message with the bytes of an array: 64 random bits. */
const tag = v.pipe(v.string(), v.regex(/^[89a-f][0-9a-f]{15}$/, "not a tag"));
/** The seal of such a message; see src/bridge/link/bytes-seal.ts. */
const seal = v.strictObject({
  nonce: positive,
  mac: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, "not a MAC")),
});
const part = v.picklist(["data", "index"]);

export type Part = v.InferOutput<typeof part>;

const callSchema = v.variant("op", [
  /** The first frame from the side that asked for the link; later only keeps it alive. */
  v.strictObject({ ...id, op: v.literal("hello") }),
  /** Opens an object to be copied. It stays open until `end`, or until the link ends. */
  v.strictObject({ ...id, op: v.literal("export"), name: word, object: positive }),
  /** Sends these bytes of an exported object as a message with this tag, then answers. */
  v.strictObject({
    ...id,
    op: v.literal("send"),
    export: positive,
    part,
    byteOffset: count,
    byteLength: v.pipe(positive, v.maxValue(limits.stagingBytes)),
    tag,
  }),
  v.strictObject({ ...id, op: v.literal("end"), export: positive }),
  /** Opens a channel to be carried, until `leave`, or until the link ends. */
  v.strictObject({ ...id, op: v.literal("join"), name: word, object: positive }),
  /**
   * Reads a joined channel, and is answered when it ends. Its messages come as frames of their own;
   * see carried-frames.ts. The other side sends `count` of them, then as many as it is asked for.
   */
  v.strictObject({
    ...id,
    op: v.literal("read"),
    channel: positive,
    count: v.pipe(positive, v.maxValue(limits.carriedMessagesMax)),
  }),
  v.strictObject({ ...id, op: v.literal("leave"), channel: positive }),
  /**
   * Claims a free worker of a service, none of `except`, for a client of the caller's machine.
   * Answered with the channel of its replies, to be read with `next` and given back with `leave`.
   */
  v.strictObject({
    ...id,
    op: v.literal("claim"),
    service: word,
    except: v.pipe(v.array(word), v.maxLength(limits.farWorkersMax)),
  }),
  /**
   * The client has made its requests. The side that answers reads them with `read` as channel
   * `requests` of the caller, and writes them for the worker whose replies are `channel`.
   */
  v.strictObject({ ...id, op: v.literal("attach"), channel: positive, requests: positive }),
]);

const answerSchema = v.variant("ok", [
  v.strictObject({ ...id, ok: v.literal(true), result: v.unknown() }),
  v.strictObject({
    ...id,
    ok: v.literal(false),
    error: v.strictObject({
      code: v.pipe(v.string(), v.maxLength(64)),
      message: v.pipe(v.string(), v.maxLength(4 * 1024)),
    }),
  }),
]);

/**
 * A call or an answer. WHY not a union: it would try every call, with all its errors, before it
 * finds that a frame is an answer.
 */
export const frameSchema = v.lazy((input) =>
  typeof input === "object" && input !== null && "ok" in input ? answerSchema : callSchema,
);

export type Frame = v.InferOutput<typeof frameSchema>;
export type LinkCall = v.InferOutput<typeof callSchema>;
export type LinkAnswer = v.InferOutput<typeof answerSchema>;

export const callResults = {
  hello: v.strictObject({}),
  export: v.strictObject({
    export: positive,
    descriptor: descriptorSchema,
    /** Bytes of the part `index`, which only a bundle has. */
    indexByteLength: v.pipe(count, v.maxValue(limits.bundleIndexBytesMax)),
  }),
  /** The seal of the bytes, as they were before they were sent. */
  send: seal,
  end: v.strictObject({}),
  /** `sequence` is the number of the next message. */
  join: v.strictObject({ channel: positive, sequence: count }),
  /**
   * `gone`: its writer has died; otherwise it has closed the channel. `sequence`: the number of the
   * message that would have come next.
   */
  read: v.strictObject({ gone: v.boolean(), sequence: count }),
  leave: v.strictObject({}),
  claim: v.strictObject({
    channel: positive,
    /** Of the replies, on the hub there. */
    name: word,
    object: positive,
    content: channelContent,
    /** The worker's hello; see src/service/service-facts.ts. */
    hello: v.unknown(),
  }),
  attach: v.strictObject({}),
} as const satisfies Record<LinkCall["op"], v.GenericSchema>;

export type CallResult<Op extends LinkCall["op"]> = v.InferOutput<(typeof callResults)[Op]>;

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH */
export function decodeLinkMessage<Schema extends v.GenericSchema>(
  what: string,
  schema: Schema,
  bytes: Uint8Array,
): v.InferOutput<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new CudaIpcError("INVALID_MESSAGE", `Cannot read ${what}: ${messageOf(cause)}`);
  }
  const other = otherVersionOf(value);
  if (other !== undefined) throw new VersionMismatch(`read ${what}`, other);
  return checked(what, schema, value);
}

export function encodeLinkMessage(message: LinkRequest | LinkReply | Frame): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(message));
}
