/** Checks of values given on the command line; what does not pass is wrong usage. */
import { InvalidArgumentError } from "commander";
import { type DType, dtypeNames, isDType } from "../array/dtype.js";

export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count)) throw new InvalidArgumentError("Wanted an integer from 0.");
  return count;
}

export function parsePositive(text: string, max: number): number {
  const count = parseCount(text);
  if (count === 0 || count > max) throw new InvalidArgumentError(`Wanted an integer from 1 to ${max}.`);
  return count;
}

/** `1080,1920,3`; nothing between commas is one element: `--shape ""` is a single value. */
export function parseShape(text: string): number[] {
  if (text.trim() === "") return [];
  return text.split(",").map((size) => parseCount(size.trim()));
}

export function parseDTypeName(text: string): DType {
  if (isDType(text)) return text;
  throw new InvalidArgumentError(`Known are ${dtypeNames.join(", ")}.`);
}
