/** The meta of a message: bytes, or a JSON value. */
import { CudaIpcError } from "../base/errors.js";
import { flags } from "../ring/channel-layout.js";
import type { ControlWords } from "../ring/control-words.js";

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Bytes travel unchanged. Any other value travels as JSON. */
export type Meta = Uint8Array | JsonValue;

export interface EncodedMeta {
  readonly bytes: Uint8Array;
  readonly isJson: boolean;
}

/** JSON that was encoded elsewhere. It travels unchanged, where `JSON.stringify` might not. */
export class JsonText {
  readonly bytes: Uint8Array;

  private constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  static of(bytes: Uint8Array): Meta {
    return new JsonText(bytes) as unknown as Meta;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws MESSAGE_TOO_LARGE; TypeError if the value is not JSON */
export function encodeMeta(label: string, meta: Meta, bytesMax: number): EncodedMeta {
  const given: unknown = meta;
  const isJson = !(meta instanceof Uint8Array);
  const bytes = given instanceof JsonText ? given.bytes : isJson ? encodeJson(meta) : meta;
  if (bytes.byteLength <= bytesMax) return { bytes, isJson };
  throw new CudaIpcError(
    "MESSAGE_TOO_LARGE",
    `Cannot commit to channel "${label}": its meta has ${bytes.byteLength} bytes, ` +
      `the channel takes ${bytesMax} (metaBytesMax)`,
  );
}

/** Writes meta into a slot's header. Returns the header flags for it. */
export function writeMeta(
  words: ControlWords,
  slot: number,
  { bytes, isJson }: EncodedMeta,
): number {
  words.meta(slot, bytes.byteLength).set(bytes);
  return isJson ? flags.json : 0;
}

/** @throws CHANNEL_CORRUPT */
export function decodeJson(label: string, bytes: Uint8Array): JsonValue {
  try {
    return JSON.parse(decoder.decode(bytes)) as JsonValue;
  } catch (error) {
    const message =
      `Cannot read the meta of a message of channel "${label}": ` +
      `its ${bytes.byteLength} bytes are not JSON`;
    throw new CudaIpcError("CHANNEL_CORRUPT", message, { cause: error });
  }
}

function encodeJson(value: JsonValue): Uint8Array {
  const text = JSON.stringify(value);
  if (typeof text !== "string")
    throw new TypeError(`meta must be bytes or JSON, not ${typeof value}`);
  return encoder.encode(text);
}
