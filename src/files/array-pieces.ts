/**
 * Reads an array's elements in C order, one piece at a time, so that no command needs memory for
 * the whole array.
 */
import { arrayByteLength } from "../array/layout.js";
import type { WaitOptions } from "../base/deadline.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";

/** A multiple of every element's size. */
const PIECE_BYTES = 8 * 1024 * 1024;

/** Yields pieces of whole elements. A piece is valid until the next one is requested. */
export async function* readPieces(
  array: DeviceArray,
  options: WaitOptions = {},
  pieceBytes: number = PIECE_BYTES,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (array.byteLength === 0) return;
  if (array.isContiguous) yield* readRange(array, options, pieceBytes);
  else yield* readParts(array, options, pieceBytes);
}

/** Like `readPieces`, in the fastest order: the order of memory if the array has no gaps. */
export function readPiecesInAnyOrder(
  array: DeviceArray,
  options: WaitOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  const strideOf = (axis: number) => Math.abs(array.strides[axis] ?? 0);
  const outermostFirst = array.shape
    .map((_, axis) => axis)
    .sort((a, b) => strideOf(b) - strideOf(a));
  const inMemoryOrder = array.transpose(...outermostFirst);
  return readPieces(inMemoryOrder.isContiguous ? inMemoryOrder : array, options);
}

/** The first elements in C order, at most `count` of them. */
export async function readFirst(
  array: DeviceArray,
  count: number,
  options: WaitOptions = {},
): Promise<Uint8Array> {
  const elementBytes = arrayByteLength(array.dtype, []);
  let part = array;
  while (part.shape.length > 0 && part.elementCount > count) {
    const rowElements = part.elementCount / (part.shape[0] ?? 1);
    if (rowElements < count) {
      part = part.slice({ stop: Math.ceil(count / rowElements) });
      break;
    }
    part = part.slice(0);
  }
  const values = await part.read(options);
  return new Uint8Array(
    values.buffer,
    values.byteOffset,
    Math.min(values.byteLength, count * elementBytes),
  );
}

async function* readRange(
  array: DeviceArray,
  options: WaitOptions,
  pieceBytes: number,
): AsyncGenerator<Uint8Array> {
  const room = new Uint8Array(Math.min(pieceBytes, array.byteLength));
  for (let done = 0; done < array.byteLength; done += room.byteLength) {
    const piece = room.subarray(0, Math.min(room.byteLength, array.byteLength - done));
    await array.buffer.read(array.layout.byteOffset + done, piece, options);
    yield piece;
  }
}

/** Splits the outermost axis until a part is small enough to read at once. */
async function* readParts(
  array: DeviceArray,
  options: WaitOptions,
  pieceBytes: number,
): AsyncGenerator<Uint8Array> {
  const [size] = array.shape;
  if (size === undefined || array.byteLength <= pieceBytes) {
    const values = await array.read(options);
    yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    return;
  }
  const rowBytes = arrayByteLength(array.dtype, array.shape.slice(1));
  const rows = Math.floor(pieceBytes / rowBytes);
  for (let start = 0; start < size; start += Math.max(1, rows)) {
    const part =
      rows === 0 ? array.slice(start) : array.slice({ start, stop: Math.min(size, start + rows) });
    yield* readParts(part, options, pieceBytes);
  }
}
