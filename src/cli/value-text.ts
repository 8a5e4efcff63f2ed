/** Values of arrays as text. */
import { type DType, dtypeFacts } from "../array/dtype.js";
import { fromHostBytes, hostEntriesPerElement } from "../array/host-values.js";
import { decodeToFloat32, isSmallFloat, type SmallFloatBits } from "../array/small-floats.js";

/** The elements in these bytes, each in the shortest form that people take for it. */
export function valueTexts(dtype: DType, bytes: Uint8Array): string[] {
  const stored = fromHostBytes(dtype, bytes);
  const { kind } = dtypeFacts(dtype);
  if (kind === "bool") return Array.from(stored as Uint8Array, (value) => (value === 0 ? "false" : "true"));
  const values = isSmallFloat(dtype) ? decodeToFloat32(dtype, stored as SmallFloatBits<typeof dtype>) : stored;
  const texts = Array.from<number | bigint, string>(values, numberText);
  if (hostEntriesPerElement(dtype) === 1) return texts;
  return pairs(texts).map(([real, imaginary]) => `${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}i`);
}

/** Integers in full, others with the 7 digits that a float32 has. */
export function numberText(value: number | bigint): string {
  if (typeof value === "bigint" || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(7)));
}

function pairs(texts: readonly string[]): [string, string][] {
  const result: [string, string][] = [];
  for (let i = 0; i + 1 < texts.length; i += 2) result.push([texts[i] ?? "", texts[i + 1] ?? ""]);
  return result;
}
