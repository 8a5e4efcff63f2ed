/** Encodes a received message: its bytes, a line, an .npy file, or a line of JSON about it. */
import type { ReceivedSlot } from "../../channel/received-slot.js";
import { readPieces } from "../../files/array-pieces.js";
import { encodeNpyHeader } from "../../files/npy-header.js";
import { printable } from "../terminal/printable.js";

export type MessageFormat = "raw" | "lines" | "npy" | "json";

const LINE_BREAK = Uint8Array.of(10);
const encoder = new TextEncoder();

/** Yields pieces. Each is valid until the next one is asked for. */
export async function* messageBytes(
  slot: ReceivedSlot,
  format: MessageFormat,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (format === "json") {
    yield encoder.encode(`${jsonLine(slot)}\n`);
    return;
  }
  if (format === "npy") yield encodeNpyHeader(slot.array.dtype, slot.array.shape);
  if (slot.byteLength === 0) {
    // There are no elements to read.
  } else if (slot.array.device.cpuVisible) yield slot.bytes;
  else yield* readPieces(slot.array, { signal });
  if (format === "lines") yield LINE_BREAK;
}

function jsonLine(slot: ReceivedSlot): string {
  const { sequence, timestampMs, missed, byteLength, array } = slot;
  const { dtype, shape } = array;
  const text = JSON.stringify({
    sequence,
    timestampMs,
    missed,
    byteLength,
    dtype,
    shape,
    ...metaOf(slot),
  });
  return printable(text);
}

/** The meta of a message: a JSON value, or bytes in base64. */
function metaOf(slot: ReceivedSlot): { meta: unknown; metaBase64?: string } {
  const { json } = slot;
  if (json !== undefined) return { meta: json };
  const { meta } = slot;
  if (meta.byteLength === 0) return { meta: null };
  return { meta: null, metaBase64: Buffer.from(meta).toString("base64") };
}
