/** Escapes what could control a terminal in text of other processes: names, metadata, paths. */

/** Control characters (C0, DEL, C1), line separators, and characters that reverse text. */
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The styles of `Terminal.style`, without ESC: bold, dim and the plain colours. */
const OWN_STYLE = /^\[(?:1|2|22|3[0-7]|39)m/;

/** A line break becomes `\u000a`. Within JSON that form means the same character. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/** Like `printable`, but keeps the styles that `Terminal.style` adds. */
export function printableStyled(text: string): string {
  return text.replace(UNPRINTABLE, (character, offset: number) =>
    character === "\u001b" && OWN_STYLE.test(text.slice(offset + 1, offset + 5))
      ? character
      : escaped(character),
  );
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
