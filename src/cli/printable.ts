/** Text of others (names, metadata, paths) as it may go to a terminal: nothing in it moves the cursor or turns the text around. */

/** Control characters (C0, DEL, C1), line separators, and what changes the direction of text. */
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** What `Terminal.style` puts around text, after the ESC: bold, dim and the plain colours. */
const OWN_STYLE = /^\[(?:1|2|22|3[0-7]|39)m/;

/** Line breaks too become `\u000a`. WHY that form: within JSON it means the same character. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/** As `printable`, of a line that we styled ourselves. */
export function printableStyled(text: string): string {
  return text.replace(UNPRINTABLE, (character, offset: number) =>
    character === "\u001b" && OWN_STYLE.test(text.slice(offset + 1, offset + 5)) ? character : escaped(character),
  );
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
