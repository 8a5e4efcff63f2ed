/** How long it takes until an array that is put on one machine is open on another one. */
import type { Row } from "../measure.js";
import type { CopySides } from "./arrays.js";

const ELEMENTS = 1024;
const ANYWHERE = { from: "any", timeoutMs: 20_000 } as const;
/** So that the bridge sleeps when the name is new. */
const PAUSE_MS = 500;

export interface SmallArrayOptions {
  /** New names, and as many that the other machine knows already. */
  readonly names: number;
}

export async function smallArrays(
  { hubOfFrom, hubOfTo }: CopySides,
  { names }: SmallArrayOptions,
): Promise<Row[]> {
  const content = new Float32Array(ELEMENTS);
  const openMs = async (name: string): Promise<number> => {
    const startMs = performance.now();
    using _array = await hubOfTo.open(name, ANYWHERE);
    return performance.now() - startMs;
  };
  const known: number[] = [];
  const fresh: number[] = [];
  for (let index = 0; index < names; index += 1) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    using _known = await hubOfFrom.put(`known-${index}`, content);
    using _fresh = await hubOfFrom.put(`fresh-${index}`, content);
    fresh.push(await openMs(`fresh-${index}`));
    known.push(await openMs(`known-${index}`));
  }
  return [
    row("a new array of 4 KiB, from its publication here until it is open there, p50", fresh),
    row("an array of 4 KiB that the other machine knows, until it is open there, p50", known),
  ];
}

function row(what: string, ms: readonly number[]): Row {
  const sorted = [...ms].sort((one, other) => one - other);
  return { what, value: sorted[sorted.length >> 1] ?? Number.NaN, unit: "ms" };
}
