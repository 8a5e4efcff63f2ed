/**
 * Encodes and decodes messages. Decoding checks UTF-8, JSON, the version and the schema, each with
 * its own error.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { hasMoreCommas, isDeeperThan } from "./json-counts.js";
import {
  PROTOCOL_VERSION,
  type Reply,
  type Request,
  type ResultOf,
  replySchema,
  requestSchema,
  resultSchemas,
} from "./messages.js";
import type { PeerMessage } from "./peer-messages.js";

// WHY ignoreBOM: otherwise a byte order mark is skipped, and not part of the text.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** @throws MESSAGE_TOO_LARGE */
export function encodeMessage(message: Request | Reply | PeerMessage): Uint8Array {
  const bytes = encoder.encode(JSON.stringify(message));
  if (bytes.byteLength > limits.messageBytesMax) {
    throw new CudaIpcError(
      "MESSAGE_TOO_LARGE",
      `Cannot send a message of ${bytes.byteLength} bytes: ` +
        `the protocol takes ${limits.messageBytesMax}`,
    );
  }
  return bytes;
}

/** A shorter request is parsed in microseconds, whatever is in it. */
const PARSED_UNSEEN_BYTES = 1024;
/** Far more than any request has. */
const COMMAS_MAX = 1024;

/**
 * @param onId called with the id of a request, also if the rest of it cannot be decoded; 0 if it
 * has none. Not called if it is no JSON.
 * @throws INVALID_MESSAGE, PROTOCOL_MISMATCH
 */
export function decodeRequest(bytes: Uint8Array, onId?: (id: number) => void): Request {
  if (isCostly(bytes)) {
    throw new CudaIpcError(
      "INVALID_MESSAGE",
      `Cannot read a request: over ${limits.jsonLevelsMax} levels of lists and objects ` +
        `(jsonLevelsMax), or over ${COMMAS_MAX} commas`,
    );
  }
  const value = parseJson("a request", bytes);
  onId?.(idIn(value));
  return checked("a request", requestSchema, ofThisVersion("a request", value));
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH */
export function decodeReply(bytes: Uint8Array): Reply {
  const what = "a reply of the hub";
  return checked(what, replySchema, parse(what, bytes, limits.jsonLevelsMax));
}

/** @throws INVALID_MESSAGE; INVALID_DESCRIPTOR if only the descriptor of an `open` is wrong */
export function decodeResult<Op extends Request["op"]>(op: Op, result: unknown): ResultOf<Op> {
  const codeAt = (path: string) =>
    /^descriptor\b/.test(path) ? "INVALID_DESCRIPTOR" : "INVALID_MESSAGE";
  const what = `the hub's answer to "${op}"`;
  return checked(what, resultSchemas[op], result, codeAt) as ResultOf<Op>;
}

/**
 * Decodes a message between processes without a hub.
 * @throws INVALID_MESSAGE, PROTOCOL_MISMATCH
 */
export function decodePeerMessage<Schema extends v.GenericSchema>(
  what: string,
  schema: Schema,
  bytes: Uint8Array,
): v.InferOutput<Schema> {
  return checked(what, schema, parse(what, bytes));
}

/** The id of a request of which a part is lost; 0 if it has none. */
export function idOf(bytes: Uint8Array): number {
  try {
    return isCostly(bytes) ? 0 : idIn(JSON.parse(decoder.decode(bytes)));
  } catch {
    // It is not JSON. The caller has the error that says so.
    return 0;
  }
}

function idIn(value: unknown): number {
  const id = typeof value === "object" && value !== null && "id" in value ? value.id : 0;
  return typeof id === "number" && Number.isSafeInteger(id) && id > 0 ? id : 0;
}

/** True if it would take milliseconds to parse: 64 KiB have room for 32,000 levels. */
function isCostly(bytes: Uint8Array): boolean {
  if (bytes.byteLength <= PARSED_UNSEEN_BYTES) return false;
  return isDeeperThan(limits.jsonLevelsMax, bytes) || hasMoreCommas(COMMAS_MAX, bytes);
}

/** @param levelsMax lists and objects in each other */
function parse(what: string, bytes: Uint8Array, levelsMax?: number): unknown {
  const value = parseJson(what, bytes);
  if (levelsMax !== undefined && isDeeperThan(levelsMax, bytes)) {
    throw new CudaIpcError(
      "INVALID_MESSAGE",
      `Cannot read ${what}: its JSON has more levels than the limit (jsonLevelsMax), ${levelsMax}`,
    );
  }
  return ofThisVersion(what, value);
}

function parseJson(what: string, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (cause) {
    throw new CudaIpcError(
      "INVALID_MESSAGE",
      `Cannot read ${what}: ${bytes.byteLength} bytes that are not JSON`,
      {
        cause,
      },
    );
  }
}

/** @throws PROTOCOL_MISMATCH */
function ofThisVersion(what: string, value: unknown): unknown {
  const version = typeof value === "object" && value !== null && "v" in value ? value.v : undefined;
  if (typeof version === "number" && version !== PROTOCOL_VERSION) {
    throw new CudaIpcError(
      "PROTOCOL_MISMATCH",
      `Cannot read ${what}: it is of protocol version ${version}, ` +
        `wanted version ${PROTOCOL_VERSION}`,
    );
  }
  return value;
}

type Refusal = "INVALID_MESSAGE" | "INVALID_DESCRIPTOR";

/**
 * Checks a value against a schema.
 * @throws `code` with the path of the first wrong field
 */
export function checked<Schema extends v.GenericSchema>(
  what: string,
  schema: Schema,
  value: unknown,
  code: Refusal | ((path: string) => Refusal) = "INVALID_MESSAGE",
): v.InferOutput<Schema> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue) ?? "the document";
  throw new CudaIpcError(
    typeof code === "string" ? code : code(path),
    `Cannot read ${what}: ${path}: expected ${issue.expected}, found ${clip(issue.received)}`,
  );
}

function clip(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
