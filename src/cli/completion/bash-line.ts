/**
 * A command line of bash up to the cursor: its words without their quotes, and how to continue the
 * last one. zsh and fish do both themselves.
 */

/** The quotes in which a line ends: none, single, double, or those of `$'...'`. */
export type Quote = "" | "'" | '"' | "$'";

export interface BashLine {
  /** The last one is being typed, and may be empty. */
  readonly words: readonly string[];
  readonly quote: Quote;
  /** Whether the last word is the file of a redirection. */
  readonly isRedirection: boolean;
}

/** A token of a line. A quote that nobody has closed yet ends with the line. */
const TOKENS = [
  /(?<space>[ \t\n]+)/,
  /(?<redirection>[<>]+&?)/,
  /\$'(?<ansi>(?:\\.|[^'\\])*)(?<ansiEnd>'|\\?$)/,
  /'(?<single>[^']*)(?<singleEnd>'|$)/,
  /"(?<double>(?:\\.|[^"\\])*)(?<doubleEnd>"|\\?$)/,
  /\\(?<escaped>.|$)/,
  /(?<plain>.)/,
];
const TOKEN = new RegExp(TOKENS.map(({ source }) => source).join("|"), "gsu");

export function parseBashLine(line: string): BashLine {
  const words: string[] = [];
  let word: string | undefined;
  let quote: Quote = "";
  let isRedirection = false;
  const endWord = () => {
    if (word === undefined) return;
    if (!isRedirection) words.push(word);
    isRedirection = false;
    word = undefined;
  };
  for (const { groups = {} } of line.matchAll(TOKEN)) {
    const { space, redirection, ansi, single, double, escaped, plain } = groups;
    if (space !== undefined) endWord();
    else if (redirection !== undefined) {
      // The number of a descriptor, as in `2>`, belongs to it.
      if (/^\d+$/.test(word ?? "")) word = undefined;
      endWord();
      isRedirection = true;
    } else {
      const text = single ?? escaped ?? plain ?? "";
      word = `${word ?? ""}${text}${withoutEscapes(ansi ?? "")}${withoutBackslashes(double ?? "")}`;
      if (groups.singleEnd === "") quote = "'";
      if (double !== undefined && groups.doubleEnd !== '"') quote = '"';
      if (ansi !== undefined && groups.ansiEnd !== "'") quote = "$'";
    }
  }
  return { words: [...words, word ?? ""], quote, isRedirection };
}

/** What `\` and a letter stand for in `$'...'`. */
const LETTERS: Readonly<Record<string, string>> = {
  ...{
    a: "\u0007",
    b: "\b",
    e: "\u001b",
    E: "\u001b",
    f: "\f",
    n: "\n",
    r: "\r",
    t: "\t",
    v: "\v",
  },
  ...{ "\\": "\\", "'": "'", '"': '"', "?": "?" },
};

/** Undoes `escaped`, and what people write by hand. */
function withoutEscapes(text: string): string {
  const bytes: Buffer[] = [];
  for (const [part, hex, octal] of text.matchAll(
    /\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})|\\.|[^\\]+/gsu,
  )) {
    const known = part.startsWith("\\") ? LETTERS[part.slice(1)] : undefined;
    if (hex !== undefined) bytes.push(Buffer.from([Number.parseInt(hex, 16)]));
    else if (octal !== undefined) bytes.push(Buffer.from([Number.parseInt(octal, 8) & 0xff]));
    else bytes.push(Buffer.from(known ?? part));
  }
  return Buffer.concat(bytes).toString();
}

function withoutBackslashes(text: string): string {
  return text.replaceAll(/\\([$`"\\])/g, "$1");
}

/** Control characters, which also could control a terminal, and those that turn text around. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const HAS_UNPRINTABLE = new RegExp(UNPRINTABLE.source, "u");

/**
 * Quotes text that continues a word with this open quote. bash then closes the quote, unless the
 * word already ends with that character.
 */
export function quotedForBash(text: string, quote: Quote): string {
  const quoted = quotedAfter(text, quote);
  const mark = quote.slice(-1);
  return mark !== "" && quoted.endsWith(mark) ? `${quoted}${mark}` : quoted;
}

function quotedAfter(text: string, quote: Quote): string {
  if (quote === "$'") return escaped(text);
  // Only `$'...'` can say a control character. The open quote ends before it, and begins again.
  if (HAS_UNPRINTABLE.test(text)) return `${quote}$'${escaped(text)}'${quote}`;
  if (quote === "'") return text.replaceAll("'", "'\\''");
  // WHY not \!: bash keeps that backslash, and without one an interactive bash looks for history.
  if (quote === '"') return text.replaceAll(/[$`"\\]/g, "\\$&").replaceAll("!", `"'!'"`);
  return text.replaceAll(/[^\p{L}\p{N}_./:=@%+,-]/gu, "\\$&");
}

function escaped(text: string): string {
  return text
    .replaceAll(/[\\']/g, "\\$&")
    .replaceAll(UNPRINTABLE, (character) =>
      [...Buffer.from(character)]
        .map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`)
        .join(""),
    );
}
