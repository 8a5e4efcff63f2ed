/**
 * A log in which lines that say the same again and again are counted: the first few of a kind are written, and then one line for
 * all others of an interval. Without that a user who is refused could fill the disk.
 */

const INTERVAL_MS = 10_000;
const LINES_PER_KIND = 5;
/** All kinds beyond these count as one. */
const KINDS_MAX = 100;

interface Kind {
  lines: number;
  last: string;
}

export class LimitedLog {
  readonly #write: (line: string) => void;
  readonly #kinds = new Map<string, Kind>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  readonly log = (line: string): void => {
    const key = this.#keyOf(line);
    const kind = this.#kinds.get(key) ?? { lines: 0, last: line };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    kind.last = line;
    if (kind.lines <= LINES_PER_KIND) this.#write(line);
    this.#timer ??= setTimeout(() => this.flush(), INTERVAL_MS).unref();
  };

  /** Says how many lines were left out so far, and begins anew. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, last } of kinds) {
      if (lines > LINES_PER_KIND) this.#write(`${lines - LINES_PER_KIND} more like this, the last of them: ${last}`);
    }
  }

  #keyOf(line: string): string {
    const key = kindOf(line);
    return this.#kinds.has(key) || this.#kinds.size < KINDS_MAX ? key : "";
  }
}

/** The line without its names and numbers. The numbers of users stay, so that each user has lines of its own. */
function kindOf(line: string): string {
  return line.replace(/user \d+|"[^"]*"|\d+/g, (found) => (found.startsWith("user") ? found : "#"));
}
