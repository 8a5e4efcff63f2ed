import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  parseBashLine,
  type Quote,
  quotedForBash,
} from "../../../../src/cli/completion/bash-line.js";

const HARD = [
  ...[
    "my frame",
    "it's",
    'a"b',
    "$HOME",
    "`id`",
    "$(id)",
    "back\\slash",
    "a\\",
    "a'",
    'a"',
    "a\\'",
  ],
  ...[
    "new\nline",
    "\n",
    "esc\u001b[2J",
    "tab\there",
    "c1\u009b",
    "bidi\u202e",
    "\u2028",
    "a!b",
    "!",
  ],
  ...[
    "~user",
    "#hash",
    "-dash",
    "é ü",
    "👩‍💻",
    "star*",
    "{a,b}",
    "a;b|c&d",
    "<a>",
    "a:b=c",
    "\u0001f",
  ],
];

/** The arguments that bash finds in these words. */
function judged(words: readonly string[]): string[] {
  const script = `printf '%s\\0' ${words.join(" ")}`;
  return execFileSync("bash", ["--norc", "-c", script], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);
}

/** As bash does it with what completion answers. */
function closed(word: string, quote: Quote): string {
  const mark = quote.slice(-1);
  return mark === "" || word.endsWith(mark) ? word : `${word}${mark}`;
}

describe("a line of bash", () => {
  it("goes on with a word in any quote, so that bash reads the whole value", () => {
    const quotes: readonly Quote[] = ["", "'", '"', "$'"];
    const cases = HARD.flatMap((value) =>
      quotes.map((quote) => ({
        value,
        word: closed(`${quote}pre${quotedForBash(value, quote)}`, quote),
      })),
    );
    assert.deepEqual(
      judged(cases.map(({ word }) => word)),
      cases.map(({ value }) => `pre${value}`),
    );
  });

  it("reads words as bash does", () => {
    const word = fc.array(
      fc.constantFrom("a", " ", "'", '"', "\\", "$'", "\\'", "\\n", "\\x41", "\\101", "é", "\t"),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), (parts) => {
        const line = `x ${parts.map((part) => part.join("")).join(" ")}`;
        const { words, quote } = parseBashLine(line);
        fc.pre(quote === "" && !line.endsWith("\\"));
        const found = words.at(-1) === "" && /[ \t]$/.test(line) ? words.slice(0, -1) : words;
        assert.deepEqual(found, judged([line]));
      }),
      { numRuns: 150 },
    );
  });

  it("ends with the word that is being typed, and its open quote", () => {
    const cases: readonly (readonly [string, readonly string[], Quote])[] = [
      ["cuda-ipc", ["cuda-ipc"], ""],
      ["cuda-ipc ", ["cuda-ipc", ""], ""],
      ["cuda-ipc rm my\\ fr", ["cuda-ipc", "rm", "my fr"], ""],
      ["cuda-ipc rm 'my fr", ["cuda-ipc", "rm", "my fr"], "'"],
      ['cuda-ipc rm "my \\$fr', ["cuda-ipc", "rm", "my $fr"], '"'],
      ["cuda-ipc rm $'my\\nfr\\'", ["cuda-ipc", "rm", "my\nfr'"], "$'"],
      ["cuda-ipc rm 'a'\"b", ["cuda-ipc", "rm", "ab"], '"'],
      ["cuda-ipc rm a\\", ["cuda-ipc", "rm", "a"], ""],
    ];
    for (const [line, words, quote] of cases)
      assert.deepEqual(parseBashLine(line), { words, quote, isRedirection: false }, line);
  });

  it("leaves out redirections, and says if one is being typed", () => {
    assert.deepEqual(parseBashLine("cuda-ipc ls >out 2>&1 na"), {
      words: ["cuda-ipc", "ls", "na"],
      quote: "",
      isRedirection: false,
    });
    for (const line of ["cuda-ipc ls >", "cuda-ipc ls > o", "cuda-ipc ls <i", "cuda-ipc ls >>'o"])
      assert.equal(parseBashLine(line).isRedirection, true, line);
  });
});
