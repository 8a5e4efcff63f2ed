/**
 * A strict parser for the Python literals in .npy headers: dicts, tuples, lists, strings, integers,
 * True, False and None. It throws LiteralError for anything else, and never evaluates code.
 */

export type PythonLiteral =
  | string
  | bigint
  | boolean
  | null
  | { readonly tuple: readonly PythonLiteral[] }
  | { readonly list: readonly PythonLiteral[] }
  | { readonly dict: ReadonlyMap<string, PythonLiteral> };

/** Text that is not such a literal. Callers wrap this error in their own. */
export class LiteralError extends Error {
  constructor(problem: string, position: number) {
    super(`${problem} at character ${position}`);
    this.name = "LiteralError";
  }
}

/** Structured dtypes nest. numpy's own are about three levels deep. */
const DEPTH_MAX = 16;
/** A 64-bit number has at most this many digits. */
const DIGITS_MAX = 20;

/** Parses the whole text as one literal. Spaces around it are fine. Throws LiteralError. */
export function parsePythonLiteral(text: string): PythonLiteral {
  const parser = new Parser(text);
  const literal = parser.value(0);
  parser.end();
  return literal;
}

class Parser {
  readonly #text: string;
  #position = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): PythonLiteral {
    if (depth > DEPTH_MAX) throw this.#error("nested too deep");
    const next = this.#peek();
    if (next === "{") return { dict: this.#dict(depth) };
    if (next === "[") return { list: this.#items("[", "]", depth).items };
    if (next === "(") return this.#parenthesised(depth);
    if (next === "'" || next === '"') return this.#string();
    if (this.#takeWord("True")) return true;
    if (this.#takeWord("False")) return false;
    if (this.#takeWord("None")) return null;
    return this.#integer();
  }

  end(): void {
    if (this.#peek() !== undefined) throw this.#error("text after the end");
  }

  #dict(depth: number): ReadonlyMap<string, PythonLiteral> {
    const dict = new Map<string, PythonLiteral>();
    this.#take("{");
    while (this.#peek() !== "}") {
      const key = this.#string();
      if (dict.has(key)) throw this.#error(`key ${JSON.stringify(key)} twice`);
      this.#take(":");
      dict.set(key, this.value(depth + 1));
      if (this.#peek() !== "}") this.#take(",");
    }
    this.#take("}");
    return dict;
  }

  /** In Python `(3)` is the number 3, and `(3,)` is a tuple. */
  #parenthesised(depth: number): PythonLiteral {
    const { items, lastComma } = this.#items("(", ")", depth);
    if (items.length === 1 && !lastComma) return items[0] as PythonLiteral;
    return { tuple: items };
  }

  #items(
    open: string,
    close: string,
    depth: number,
  ): { items: PythonLiteral[]; lastComma: boolean } {
    const items: PythonLiteral[] = [];
    let lastComma = false;
    this.#take(open);
    while (this.#peek() !== close) {
      items.push(this.value(depth + 1));
      lastComma = this.#peek() !== close;
      if (lastComma) this.#take(",");
    }
    this.#take(close);
    return { items, lastComma };
  }

  #string(): string {
    const quote = this.#peek();
    if (quote !== "'" && quote !== '"') throw this.#error("a string was expected");
    const end = this.#text.indexOf(quote, this.#position + 1);
    if (end < 0) throw this.#error("a string without its end");
    const content = this.#text.slice(this.#position + 1, end);
    if (/[\\\n]/.test(content)) throw this.#error("a string with an escape or a line break");
    this.#position = end + 1;
    return content;
  }

  #integer(): bigint {
    this.#skipSpaces();
    const digits = /^-?(?:0|[1-9][0-9]*)/.exec(
      this.#text.slice(this.#position, this.#position + DIGITS_MAX + 2),
    )?.[0];
    if (digits === undefined) throw this.#error("a value was expected");
    if (digits.length > DIGITS_MAX) throw this.#error("a number that is too long");
    this.#position += digits.length;
    // Old files have the suffix of a Python 2 long.
    if (this.#text[this.#position] === "L") this.#position += 1;
    return BigInt(digits);
  }

  #takeWord(word: string): boolean {
    if (!this.#text.startsWith(word, this.#position)) return false;
    this.#position += word.length;
    return true;
  }

  #take(character: string): void {
    if (this.#peek() !== character) throw this.#error(`"${character}" was expected`);
    this.#position += 1;
  }

  /** The next character after spaces, which it skips. Undefined at the end. */
  #peek(): string | undefined {
    this.#skipSpaces();
    return this.#text[this.#position];
  }

  #skipSpaces(): void {
    while (this.#text[this.#position] === " " || this.#text[this.#position] === "\n")
      this.#position += 1;
  }

  #error(problem: string): LiteralError {
    return new LiteralError(problem, this.#position);
  }
}
