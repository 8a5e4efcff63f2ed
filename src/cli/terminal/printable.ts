/** Escapes what could control a terminal, and keeps the styles of our own. */
import { escaped, UNPRINTABLE } from "../../base/printable.js";

export { printable } from "../../base/printable.js";

/** The styles of `Terminal.style`, without ESC: bold, dim and the plain colours. */
const OWN_STYLE = /^\[(?:1|2|22|3[0-7]|39)m/;

/** Like `printable`, but keeps the styles that `Terminal.style` adds. */
export function printableStyled(text: string): string {
  return text.replace(UNPRINTABLE, (character, offset: number) =>
    character === "\u001b" && OWN_STYLE.test(text.slice(offset + 1, offset + 5))
      ? character
      : escaped(character),
  );
}
