/**
 * Measures several ways to do one thing in turns. Returns the median round of each, or why it has
 * none.
 */
import type { Row } from "../measure.js";
import { type Measurement, type Program, runTogether } from "../processes.js";

export interface Contender {
  /** The name of the measurement that its processes print. */
  readonly name: string;
  /** One process, or two with a socket between them, or the reason why none can run here. */
  readonly programs: readonly Program[] | string;
  /** Runs during the rounds of this contender alone. */
  readonly meanwhile?: () => Promise<AsyncDisposable>;
}

export type Times = Measurement["us"];
export type Outcome = Times | string;

/** @param by the figure whose median selects the round */
export async function measureInTurns<Key extends string>(
  contenders: Readonly<Record<Key, Contender>>,
  { rounds, by }: { readonly rounds: number; readonly by: "p50" | "mean" },
): Promise<Readonly<Record<Key, Outcome>>> {
  const keys = Object.keys(contenders) as Key[];
  const found = new Map<Key, Times[]>(keys.map((key) => [key, []]));
  const missing = new Map<Key, string>();
  for (let round = 0; round < rounds; round += 1) {
    for (const key of keys) {
      if (missing.has(key)) continue;
      const measured = await measure(contenders[key]);
      if (typeof measured === "string") missing.set(key, measured);
      else found.get(key)?.push(measured);
    }
  }
  const outcome = (key: Key): Outcome => {
    const sorted = (found.get(key) ?? []).sort((a, b) => a[by] - b[by]);
    return missing.get(key) ?? sorted[Math.floor((sorted.length - 1) / 2)] ?? "there was no round";
  };
  return Object.fromEntries(keys.map((key) => [key, outcome(key)])) as Record<Key, Outcome>;
}

async function measure({ name, programs, meanwhile }: Contender): Promise<Outcome> {
  if (typeof programs === "string") return programs;
  await using _ = await meanwhile?.();
  try {
    const measured = (await runTogether(programs)).find((it) => it.name === name);
    return measured?.us ?? `it printed nothing of ${name}`;
  } catch (error) {
    // Not thrown, because the other results are valid without it.
    return error instanceof Error ? error.message : String(error);
  }
}

/** Returns the figure of an outcome, or NaN if there is none. */
export function figureOf(outcome: Outcome, figure: (times: Times) => number): number {
  return typeof outcome === "string" ? Number.NaN : figure(outcome);
}

/** Returns the figure for a row, or the reason why there is none. */
export function valueFrom(
  outcome: Outcome,
  figure: (times: Times) => number,
): Pick<Row, "value" | "missing"> {
  const value = figureOf(outcome, figure);
  return typeof outcome === "string" ? { value, missing: outcome } : { value };
}

/** Returns the ratio for a row, or nothing if it is unknown. */
export function comparedWith(what: string, ratio: number): Pick<Row, "comparedWith" | "ratio"> {
  return Number.isFinite(ratio) ? { comparedWith: what, ratio } : {};
}
