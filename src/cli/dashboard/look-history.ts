/**
 * What the latest looks found, as lines of numbers for charts. Its size is bounded, and lines of
 * things that are gone are forgotten.
 */

/** Five minutes, at one look a second. */
const LOOKS_MAX = 300;
/** Each line has 1.2 kB. WHY so many: 1000 channels with two readers each have 7000. */
const LINES_MAX = 16_000;

interface Line {
  readonly values: Float32Array;
  /** The number of the latest look that had a value. */
  latest: number;
}

export class LookHistory {
  readonly #lines = new Map<string, Line>();
  readonly #times: Float64Array;
  readonly #looksMax: number;
  readonly #linesMax: number;
  /** How many looks there were. */
  #looks = 0;

  /** Others than these limits are for tests. */
  constructor({ looksMax = LOOKS_MAX, linesMax = LINES_MAX } = {}) {
    this.#times = new Float64Array(looksMax);
    this.#looksMax = looksMax;
    this.#linesMax = linesMax;
  }

  /** Begins a look. @param atMs of a clock that never goes back */
  begin(atMs: number): void {
    const at = this.#looks % this.#looksMax;
    this.#times[at] = atMs;
    this.#looks += 1;
    for (const [name, line] of this.#lines) {
      line.values[at] = Number.NaN;
      if (line.latest <= this.#looks - this.#looksMax) this.#lines.delete(name);
    }
  }

  /** Adds a value of this look to a line. Undefined leaves a gap, and so does a line too many. */
  put(name: string, value: number | undefined): void {
    if (value === undefined) return;
    let line = this.#lines.get(name);
    if (line === undefined) {
      if (this.#lines.size >= this.#linesMax) return;
      line = { values: new Float32Array(this.#looksMax).fill(Number.NaN), latest: 0 };
      this.#lines.set(name, line);
    }
    line.values[(this.#looks - 1) % this.#looksMax] = value;
    line.latest = this.#looks;
  }

  /** When the looks began, the oldest first, in milliseconds before the latest one. */
  agesMs(): number[] {
    const latest = this.#times[(this.#looks - 1) % this.#looksMax] ?? 0;
    return this.#inOrder(this.#times).map((time) => Math.round(latest - time));
  }

  /** A value for each of the looks, rounded for a chart. Null is a gap. */
  values(name: string): (number | null)[] {
    const { values } = this.#lines.get(name) ?? {};
    if (values === undefined) return this.#inOrder(this.#times).map(() => null);
    return this.#inOrder(values).map((value) =>
      Number.isNaN(value) ? null : Number(value.toPrecision(4)),
    );
  }

  #inOrder(ring: Float32Array | Float64Array): number[] {
    const count = Math.min(this.#looks, this.#looksMax);
    const first = this.#looks - count;
    return Array.from({ length: count }, (_, i) => ring[(first + i) % this.#looksMax] as number);
  }
}
