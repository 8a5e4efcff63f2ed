/** Checks sizes, and converts them to and from text. */
import { shownValue } from "./shown-value.js";

/** Formats a size for messages and tables: `1536` becomes `1.5 KiB`. */
export function formatBytes(byteLength: number): string {
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  if (byteLength < 1024) return byteLength === 1 ? "1 byte" : `${byteLength} bytes`;
  let value = byteLength / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit]}`;
}

const UNIT_BYTES: Readonly<Record<string, number>> = {
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
  PiB: 2 ** 50,
};

/** Parses `64GiB`, `1.5 MiB` or `4096`. Returns undefined if it is not a whole number of bytes. */
export function parseBytes(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?) ?([KMGTP]iB)?$/.exec(text);
  if (found === null) return undefined;
  const byteLength = Number(found[1]) * (UNIT_BYTES[found[2] ?? ""] ?? 1);
  return Number.isSafeInteger(byteLength) ? byteLength : undefined;
}

/** The smallest multiple of `granularity` that is at least `byteLength`. */
export function roundUp(byteLength: number, granularity: number): number {
  return Math.ceil(byteLength / granularity) * granularity;
}

/** The memory that a file of this size takes: its size, rounded up to pages of 4096 bytes. */
export function wholePages(byteLength: number): number {
  return roundUp(byteLength, 4096);
}

/**
 * Returns the value. Throws RangeError unless it is an integer from `min` to `max`, TypeError if it
 * is not a number.
 */
export function checkInteger(
  what: string,
  value: number,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): number {
  if (!Number.isSafeInteger(value) || value < min || value > max) {
    const range = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `from ${min} to ${max}`;
    const message = `${what} must be an integer ${range}, not ${shownValue(value)}`;
    throw typeof value === "number" ? new RangeError(message) : new TypeError(message);
  }
  return value;
}

/** Throws RangeError unless `byteOffset .. byteOffset + byteLength` lies in `0 .. total`. */
export function checkRange(
  what: string,
  byteOffset: number,
  byteLength: number,
  total: number,
): void {
  checkInteger(`${what}: byteOffset`, byteOffset, 0);
  checkInteger(`${what}: byteLength`, byteLength, 0);
  if (byteOffset + byteLength > total) {
    throw new RangeError(
      `${what}: bytes ${byteOffset} to ${byteOffset + byteLength} are outside of ${total} bytes`,
    );
  }
}
