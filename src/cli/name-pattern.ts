/**
 * Patterns of names, as in a shell: `*` stands for any characters and `?` for one. Names contain
 * neither, so a pattern is never the name of an object.
 */
import { CudaIpcError } from "../base/errors.js";

/**
 * The names that match one of the patterns, in their order.
 * @param attempt what the names are for, as in `Cannot list "a*": ...`
 * @throws NOT_FOUND if a pattern matches none
 */
export function matchingNames(
  attempt: string,
  names: readonly string[],
  patterns: readonly string[],
): string[] {
  const found = new Set<string>();
  for (const pattern of patterns) {
    const matching = names.filter((name) => expressionOf(pattern).test(name));
    if (matching.length === 0) {
      const message = `Cannot ${attempt} "${pattern}": no shared object has such a name`;
      throw new CudaIpcError("NOT_FOUND", message);
    }
    for (const name of matching) found.add(name);
  }
  return names.filter((name) => found.has(name));
}

/** Whether a name matches one of the patterns. */
export function matchesAny(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => expressionOf(pattern).test(name));
}

export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

function expressionOf(pattern: string): RegExp {
  const plain = pattern.replaceAll(/[\\^$.+()|[\]{}]/g, "\\$&");
  return new RegExp(`^${plain.replaceAll("*", ".*").replaceAll("?", ".")}$`);
}
