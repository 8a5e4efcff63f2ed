/**
 * What `cuda-ipc complete` prints for each shell: "files" or "values", then the values. bash gets
 * them quoted, one a line. The others get NUL after each, because a value may contain a line break.
 */
import { printable } from "../terminal/printable.js";
import { type BashLine, quotedForBash } from "./bash-line.js";
import type { Offers } from "./offer.js";

/**
 * @param part the end of the line that bash replaces; it begins after the last `:` or `=`, for
 *   example. So this part stays as it was typed, and the rest of a value follows.
 */
export function answerForBash(offers: Offers, { words, quote }: BashLine, part: string): string {
  if (offers === "files") return "files\n";
  const current = words.at(-1) ?? "";
  const lines = offers
    .filter(({ value }) => value.startsWith(current))
    .map(({ value }) => `${part}${quotedForBash(value.slice(current.length), quote)}\n`);
  return `values\n${lines.join("")}`;
}

/** Each value, then what zsh shows for it. */
export function answerForZsh(offers: Offers): string {
  if (offers === "files") return "files\0";
  const width = Math.max(0, ...offers.map(({ value }) => printable(value).length));
  const items = offers.map(({ value, text }) => {
    const shown = printable(value);
    const line = text === undefined ? shown : `${shown.padEnd(width)}  -- ${printable(text)}`;
    return `${value}\0${line}\0`;
  });
  return `values\0${items.join("")}`;
}

/** A tab begins a description. The others control terminals, and fish prints them. */
const NOT_FOR_FISH = /[\t\u0080-\u009f\p{Cf}\p{Zl}\p{Zp}]/u;

export function answerForFish(offers: Offers): string {
  if (offers === "files") return "files\0";
  const items = offers
    .filter(({ value }) => !NOT_FOR_FISH.test(value))
    .map(({ value, text }) => (text === undefined ? value : `${value}\t${printable(text)}`));
  return ["values", ...items].map((item) => `${item}\0`).join("");
}
