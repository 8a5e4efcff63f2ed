/** `frame-%d.npy`, `frame-%06d.npy`: a path for each message, with its sequence number in it. */
import { UsageError } from "../error-report.js";

export interface FilePattern {
  readonly before: string;
  readonly after: string;
  /** Digits at least. */
  readonly width: number;
}

/**
 * Undefined for a path without a number in it.
 * @throws UsageError
 */
export function filePattern(path: string): FilePattern | undefined {
  const [found, second] = path.matchAll(/%(?:0(\d))?d/g);
  if (found === undefined) return undefined;
  if (second !== undefined) throw new UsageError(`${path} has more than one %d: a message has one number`);
  const before = path.slice(0, found.index);
  const after = path.slice(found.index + found[0].length);
  return { before, after, width: Number(found[1] ?? 1) };
}

export function pathOf({ before, after, width }: FilePattern, sequence: number): string {
  return `${before}${String(sequence).padStart(width, "0")}${after}`;
}
