/** Writes a safetensors file of a given size. */
import { open } from "node:fs/promises";
import { type DType, dtypeFacts } from "../src/array/dtype.js";
import { encodeSafetensorsHeader, planSafetensors } from "../src/files/safetensors-encoding.js";

const PIECE_BYTES = 16 * 1024 * 1024;
const COLUMNS = 1024;

/** @param arrays `count` arrays of equal size; their bytes are a pattern */
export async function writeModel(
  path: string,
  byteLength: number,
  { dtype, count }: { readonly dtype: DType; readonly count: number },
): Promise<void> {
  const rows = Math.max(1, Math.floor(byteLength / dtypeFacts(dtype).byteSize / COLUMNS / count));
  const arrays = Array.from({ length: count }, (_, index) => ({
    name: `layer.${index}`,
    dtype,
    shape: [rows, COLUMNS],
  }));
  const plan = planSafetensors(arrays);
  const file = await open(path, "w");
  try {
    await file.write(encodeSafetensorsHeader(plan.arrays));
    // No byte is 0x7F or 0xFF, so that no float is a NaN, which would differ from itself.
    const piece = new Uint8Array(PIECE_BYTES).map((_, index) => (index * 7) % 127);
    for (let written = 0; written < plan.dataByteLength; written += piece.byteLength) {
      await file.write(piece, 0, Math.min(piece.byteLength, plan.dataByteLength - written));
    }
  } finally {
    await file.close();
  }
}
