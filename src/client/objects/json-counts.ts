/** Counts what a JSON text would become, before it is parsed. Pure. */

export interface JsonCounts {
  /** Lists and objects. */
  readonly containers: number;
  /** Texts, with the names of fields. */
  readonly strings: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING_BRACE = 0x7b;
/** An opening bracket with this bit is an opening brace. */
const BRACE_BIT = 0x20;

/**
 * WHY: `[],[],[]` takes memory many times its own size, and a full heap ends the process.
 * WHY two loops: with one and a flag this took ten times as long.
 */
export function countJson(bytes: Uint8Array): JsonCounts {
  const end = bytes.byteLength;
  let containers = 0;
  let strings = 0;
  for (let at = 0; at < end; at += 1) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      strings += 1;
      at = endOfString(bytes, at + 1);
    } else if ((byte | BRACE_BIT) === OPENING_BRACE) containers += 1;
  }
  return { containers, strings };
}

/** The position of the quote that ends a string, or the end of the text. */
function endOfString(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at < bytes.byteLength; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) break;
    if (byte === BACKSLASH) at += 1;
  }
  return at;
}
