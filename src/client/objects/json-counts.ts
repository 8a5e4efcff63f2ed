/** Counts what a JSON text would become, before it is parsed. Pure. */

export interface JsonCounts {
  /** Lists and objects. */
  readonly containers: number;
  /** Texts, with the names of fields. */
  readonly strings: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING_BRACKET = 0x5b;
const OPENING_BRACE = 0x7b;

/** WHY: `[],[],[]` takes memory many times its own size, and a full heap ends the process. */
export function countJson(bytes: Uint8Array): JsonCounts {
  let containers = 0;
  let strings = 0;
  let inString = false;
  for (let at = 0; at < bytes.byteLength; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      inString = !inString;
      if (inString) strings += 1;
    } else if (inString) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === OPENING_BRACKET || byte === OPENING_BRACE) containers += 1;
  }
  return { containers, strings };
}
