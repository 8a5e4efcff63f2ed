/** Escapes what could control a terminal, or begin another line, in text of other processes. */

/** Control characters (C0, DEL, C1), line separators, and characters that reverse text. */
export const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** A line break becomes `\u000a`. Within JSON that form means the same character. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

export function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
