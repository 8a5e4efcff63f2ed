/** Breaks a text into lines of a width, between words if that is possible. */
import { cutToWidth, textWidth } from "../terminal/text-width.js";

export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ").flatMap((long) => pieces(long, width))) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && textWidth(longer) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

/** A word that is wider than a line, cut. */
function pieces(word: string, width: number): string[] {
  const parts: string[] = [];
  let rest = word;
  while (textWidth(rest) > width) {
    // Without the mark of a cut. At least one character, so that it ends.
    const part = cutToWidth(rest, width + 1).slice(0, -1) || ([...rest][0] ?? "");
    parts.push(part);
    rest = rest.slice(part.length);
  }
  return [...parts, rest];
}
