/** Cuts standard input or files into messages: frames of one size, lines, or .npy arrays. */
import { createReadStream } from "node:fs";
import { addAbortSignal, type Readable } from "node:stream";
import { arrayByteLength } from "../../array/layout.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { fileSystemError, invalidFile } from "../../files/file-errors.js";
import {
  NPY_PREAMBLE_BYTES,
  type NpyHeader,
  npyHeaderByteLength,
  parseNpyStart,
} from "../../files/npy-header.js";
import { ByteReader } from "./byte-reader.js";
import { checkOrder } from "./file-messages.js";
import {
  type AskedSlot,
  bytesAs,
  chosenSlot,
  type MessageSource,
  type OutgoingMessage,
  type SlotFacts,
} from "./message-source.js";

export type Framing =
  | { readonly kind: "frames"; readonly byteLength: number }
  | { readonly kind: "lines" }
  | { readonly kind: "npy" };

type Messages = AsyncGenerator<OutgoingMessage, void, undefined>;

/** The longest line, unless the command line gives a shape or size. */
const LINE_BYTES_MAX = 64 * 1024;
const STDIN = "standard input";

/**
 * Cuts files into messages. For .npy it reads the first array, which sets dtype and shape.
 * @param paths if empty, standard input is read
 * @throws INVALID_FILE, UNSUPPORTED_DTYPE, ABORTED
 */
export async function streamMessages(
  paths: readonly string[],
  framing: Framing,
  asked: AskedSlot,
  signal: AbortSignal,
): Promise<MessageSource> {
  if (framing.kind !== "npy") {
    const bytes = framing.kind === "lines" ? LINE_BYTES_MAX : framing.byteLength;
    const slot = chosenSlot(asked, bytesAs(asked.dtype ?? "uint8", bytes));
    const byteLength =
      framing.kind === "lines" ? arrayByteLength(slot.dtype, slot.shape) : framing.byteLength;
    const cut = framing.kind === "lines" ? lines : frames;
    const messages = () => ofAll(paths, signal, (reader, of) => cut(reader, of, byteLength));
    return { slot, total: undefined, messages, close: async () => {} };
  }
  const messages = ofAll(paths, signal, arrays);
  const first = await messages.next();
  if (first.done) throw invalidFile(paths[0] ?? STDIN, "it has no array in it");
  const slot = chosenSlot(asked, first.value.array as SlotFacts);
  const all = followed(first.value, messages);
  return {
    slot,
    total: undefined,
    messages: () => all,
    close: async () => void (await messages.return()),
  };
}

async function* followed(first: OutgoingMessage, others: Messages): Messages {
  yield first;
  yield* others;
}

async function* ofAll(
  paths: readonly string[],
  signal: AbortSignal,
  cut: (reader: ByteReader, name: string) => Messages,
): Messages {
  const streams = paths.length === 0 ? [STDIN] : paths;
  for (const name of streams) {
    const stream = paths.length === 0 ? process.stdin : createReadStream(name);
    yield* cut(new ByteReader(pieces(stream, name, signal)), name);
  }
}

/** Reads a stream, and closes it when the loop over it ends. */
async function* pieces(
  stream: Readable,
  name: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of addAbortSignal(signal, stream)) yield piece as Uint8Array;
  } catch (error) {
    if (signal.aborted)
      throw new CudaIpcError("ABORTED", `Cannot read ${name}: aborted`, { cause: error });
    throw fileSystemError(`read ${JSON.stringify(name)}`, error);
  }
}

async function* frames(reader: ByteReader, name: string, byteLength: number): Messages {
  for (let count = 1; ; count += 1) {
    const data = await reader.take(byteLength);
    if (data.byteLength === 0) return;
    if (data.byteLength < byteLength) {
      throw invalidFile(
        name,
        `it ends in frame ${count}, after ${data.byteLength} of ${byteLength} bytes`,
      );
    }
    yield { origin: `frame ${count} of ${name}`, byteLength, data };
  }
}

async function* lines(reader: ByteReader, name: string, byteLengthMax: number): Messages {
  for (let count = 1; ; count += 1) {
    const data = await reader.line(byteLengthMax);
    if (data === undefined) return;
    yield { origin: `line ${count} of ${name}`, byteLength: data.byteLength, data };
  }
}

async function* arrays(reader: ByteReader, name: string): Messages {
  for (let count = 1; ; count += 1) {
    const origin = `array ${count} of ${name}`;
    const header = await npyHeader(reader, origin);
    if (header === undefined) return;
    checkOrder(header, origin);
    const { dtype, shape, dataByteLength: byteLength } = header;
    if (byteLength > limits.viewBytesMax) {
      throw invalidFile(
        origin,
        `its header claims ${byteLength} bytes of data, the limit is ${limits.viewBytesMax}`,
      );
    }
    const data = await reader.take(byteLength);
    if (data.byteLength < byteLength) {
      throw invalidFile(
        origin,
        `its header claims ${byteLength} bytes of data, but it has ${data.byteLength}`,
      );
    }
    yield { origin, byteLength, array: { dtype, shape }, data };
  }
}

/** Reads the next header. Returns undefined at the end of the stream. */
async function npyHeader(reader: ByteReader, origin: string): Promise<NpyHeader | undefined> {
  const preamble = await reader.take(NPY_PREAMBLE_BYTES);
  if (preamble.byteLength === 0) return undefined;
  // Copied, because the bytes are valid only until the next take().
  const start = Buffer.from(preamble);
  const rest = await reader.take(npyHeaderByteLength(start, origin) - start.byteLength);
  return parseNpyStart(Buffer.concat([start, rest]), origin);
}
