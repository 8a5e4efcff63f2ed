/** Encodes pixels as PNG. https://www.w3.org/TR/png-3/ */
import { promisify } from "node:util";
import { crc32, deflate } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const RGBA_8_BITS = [8, 6, 0, 0, 0];
/** The fastest level: pictures go to a browser on this machine, mostly. */
const LEVEL = 1;

const compress = promisify<Uint8Array, { level: number }, Buffer>(deflate);

/** @param rgba four bytes for each pixel, row by row */
export async function encodePng(
  width: number,
  height: number,
  rgba: Uint8Array,
): Promise<Uint8Array> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set(RGBA_8_BITS, 8);
  const lines = Buffer.alloc(height * (4 * width + 1));
  for (let row = 0; row < height; row += 1) {
    // The first byte of a line is its filter: none.
    lines.set(rgba.subarray(row * 4 * width, (row + 1) * 4 * width), row * (4 * width + 1) + 1);
  }
  const data = await compress(lines, { level: LEVEL });
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("IDAT", data),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Uint8Array): Buffer {
  const framed = Buffer.alloc(12 + data.byteLength);
  framed.writeUInt32BE(data.byteLength, 0);
  framed.write(type, 4, "latin1");
  framed.set(data, 8);
  framed.writeUInt32BE(crc32(framed.subarray(4, -4)), 8 + data.byteLength);
  return framed;
}
