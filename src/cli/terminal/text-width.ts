/** How many columns of a terminal a text takes, and how it is cut and padded to a width. */

/** Marks on the character before them, and characters that are not shown. */
const NARROWEST = /[\p{Mn}\p{Me}\p{Cf}]/u;
/** Characters of East Asian scripts and pictures, which take two columns. */
const WIDE = new RegExp(
  "[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f" +
    "\\uff00-\\uff60\\uffe0-\\uffe6\\u{20000}-\\u{3fffd}\\p{Emoji_Presentation}]",
  "u",
);
const ASCII = /^[\x20-\x7e]*$/;

export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

/** The text, or its beginning and a `~` if it is wider. */
export function cutToWidth(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  if (width < 1) return "";
  let [cut, used] = ["", 0];
  for (const character of text) {
    used += characterWidth(character);
    if (used > width - 1) break;
    cut += character;
  }
  return `${cut}~`;
}

/** The text in exactly this width. */
export function inWidth(text: string, width: number, align: "left" | "right"): string {
  const cut = cutToWidth(text, width);
  const spaces = " ".repeat(Math.max(0, width - textWidth(cut)));
  return align === "right" ? `${spaces}${cut}` : `${cut}${spaces}`;
}

function characterWidth(character: string): number {
  if (NARROWEST.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}
