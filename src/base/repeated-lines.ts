/** A log without endless repetition: a user or a machine that is refused must not fill the disk. */

const INTERVAL_MS = 10_000;
const LINES_PER_KIND = 5;
/** Further kinds count as one. */
const KINDS_MAX = 100;

export interface LineRules<Line> {
  /** Lines of one kind are counted together. */
  kindOf(line: Line): string;
  write(line: Line): void;
  /** Writes one line for `count` lines that were left out. */
  writeRest(count: number, last: Line): void;
}

interface Kind<Line> {
  lines: number;
  last: Line;
}

/** Writes the first few lines of a kind, and then one line for all others of an interval. */
export class RepeatedLines<Line> {
  readonly #rules: LineRules<Line>;
  readonly #kinds = new Map<string, Kind<Line>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(rules: LineRules<Line>) {
    this.#rules = rules;
  }

  add(line: Line): void {
    const key = this.#keyOf(line);
    const kind = this.#kinds.get(key) ?? { lines: 0, last: line };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    kind.last = line;
    if (kind.lines <= LINES_PER_KIND) this.#rules.write(line);
    this.#timer ??= setTimeout(() => this.flush(), INTERVAL_MS).unref();
  }

  /** Writes how many lines were left out, and starts counting again. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, last } of kinds) {
      const count = lines - LINES_PER_KIND;
      if (count > 0) this.#rules.writeRest(count, last);
    }
  }

  #keyOf(line: Line): string {
    const key = this.#rules.kindOf(line);
    return this.#kinds.has(key) || this.#kinds.size < KINDS_MAX ? key : "";
  }
}

/** The message without names and numbers. */
export function kindOfMessage(message: string): string {
  return message.replace(/"[^"]*"|\d+/g, "#");
}

/** One line for those that were left out. */
export function restOf(count: number, message: string): string {
  return `${count} more like this, the last of them: ${message}`;
}
