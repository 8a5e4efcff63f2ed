/**
 * A JSON parser for headers of untrusted files. Unlike JSON.parse it refuses duplicate names,
 * invalid Unicode and deep nesting. Only integers from 0 are valid numbers.
 */

/** An object is a Map, so names like `__proto__` are safe. */
export type StrictJson =
  | string
  | number
  | boolean
  | null
  | readonly StrictJson[]
  | ReadonlyMap<string, StrictJson>;

/** Text that is not valid. Callers wrap this error in their own. */
export class JsonError extends Error {
  constructor(problem: string, position: number) {
    super(`${problem} at character ${position}`);
    this.name = "JsonError";
  }
}

const DEPTH_MAX = 32;

/**
 * Parses the whole text as one value. Throws JsonError. A number that is not an integer from 0
 * (`1.0`, `-1`, `1e3`) becomes NaN, because no header field has one. Integers over 2^53 lose
 * digits, but stay over 2^53.
 */
export function parseStrictJson(text: string): StrictJson {
  const parser = new Parser(text);
  const value = parser.value(0);
  parser.end();
  return value;
}

class Parser {
  readonly #text: string;
  readonly #number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
  readonly #spaces = /[ \t\r\n]*/y;
  #position = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): StrictJson {
    if (depth > DEPTH_MAX) throw this.#error("nested too deep");
    switch (this.#peek()) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#integer();
    }
  }

  end(): void {
    if (this.#peek() !== undefined) throw this.#error("text after the end");
  }

  #object(depth: number): ReadonlyMap<string, StrictJson> {
    const object = new Map<string, StrictJson>();
    this.#position += 1;
    if (this.#takeIf("}")) return object;
    for (;;) {
      if (this.#peek() !== '"') throw this.#error("a name was expected");
      const name = this.#string();
      if (object.has(name)) throw this.#error(`name ${JSON.stringify(name.slice(0, 200))} twice`);
      if (!this.#takeIf(":")) throw this.#error('":" was expected');
      object.set(name, this.value(depth + 1));
      if (this.#takeIf("}")) return object;
      if (!this.#takeIf(",")) throw this.#error('"," or "}" was expected');
    }
  }

  #array(depth: number): readonly StrictJson[] {
    const array: StrictJson[] = [];
    this.#position += 1;
    if (this.#takeIf("]")) return array;
    for (;;) {
      array.push(this.value(depth + 1));
      if (this.#takeIf("]")) return array;
      if (!this.#takeIf(",")) throw this.#error('"," or "]" was expected');
    }
  }

  /** Strings with escapes or control characters go to JSON.parse, which knows all their rules. */
  #string(): string {
    const start = this.#position;
    let end = start + 1;
    let plain = true;
    for (;;) {
      const unit = this.#text.charCodeAt(end);
      if (Number.isNaN(unit)) throw this.#error("a string without its end");
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) end += 1;
      if (unit === BACKSLASH || unit < SPACE) plain = false;
      end += 1;
    }
    this.#position = end + 1;
    if (plain) return this.#text.slice(start + 1, end);
    let decoded: string;
    try {
      decoded = JSON.parse(this.#text.slice(start, end + 1)) as string;
    } catch {
      throw new JsonError("a string with a wrong escape or a control character", start);
    }
    if (/\p{Surrogate}/u.test(decoded)) throw new JsonError("a string that is no Unicode", start);
    return decoded;
  }

  #integer(): number {
    this.#number.lastIndex = this.#position;
    const digits = this.#number.exec(this.#text)?.[0];
    if (digits === undefined) throw this.#error("a value was expected");
    this.#position += digits.length;
    return /^[0-9]+$/.test(digits) ? Number(digits) : Number.NaN;
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#position)) throw this.#error("a value was expected");
    this.#position += word.length;
    return value;
  }

  #takeIf(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#position += 1;
    return true;
  }

  /** The next character after spaces, which it skips. Undefined at the end. */
  #peek(): string | undefined {
    if (this.#text.charCodeAt(this.#position) <= SPACE) {
      this.#spaces.lastIndex = this.#position;
      this.#spaces.test(this.#text);
      this.#position = this.#spaces.lastIndex;
    }
    return this.#text[this.#position];
  }

  #error(problem: string): JsonError {
    return new JsonError(problem, this.#position);
  }
}

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
