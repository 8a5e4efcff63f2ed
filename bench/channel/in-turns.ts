/** Several ways to do the same thing, measured in turns in one run: for each the round in the middle, or why there is none. */
import type { Row } from "../measure.js";
import { type Measurement, type Program, runTogether } from "../processes.js";

export interface Contender {
  /** Of the measurement that its processes print. */
  readonly name: string;
  /** One process, or two that find a socket to each other; or why it cannot be measured here. */
  readonly programs: readonly Program[] | string;
}

export type Outcome = Measurement["us"] | string;

/** @param by which figure of a round decides which round is in the middle */
export async function measureInTurns<Key extends string>(
  contenders: Readonly<Record<Key, Contender>>,
  { rounds, by }: { readonly rounds: number; readonly by: "p50" | "mean" },
): Promise<Record<Key, Outcome>> {
  const keys = Object.keys(contenders) as Key[];
  const found = new Map<Key, Measurement["us"][]>(keys.map((key) => [key, []]));
  const missing = new Map<Key, string>();
  for (let round = 0; round < rounds; round += 1) {
    for (const key of keys) {
      if (missing.has(key)) continue;
      const { name, programs } = contenders[key];
      try {
        if (typeof programs === "string") throw new Error(programs);
        const measured = await runTogether(programs);
        const one = measured.find((it) => it.name === name);
        if (one === undefined) throw new Error(`Nothing was measured for ${name}`);
        found.get(key)?.push(one.us);
      } catch (error) {
        // WHY not thrown: what the others do stands without it.
        missing.set(key, error instanceof Error ? error.message : String(error));
      }
    }
  }
  const outcome = (key: Key): Outcome => {
    const sorted = (found.get(key) ?? []).sort((a, b) => a[by] - b[by]);
    return missing.get(key) ?? sorted[Math.floor((sorted.length - 1) / 2)] ?? "not measured";
  };
  return Object.fromEntries(keys.map((key) => [key, outcome(key)])) as Record<Key, Outcome>;
}

/** What a row says of an outcome: a value, or in its place why there is none. */
export function valueFrom(outcome: Outcome, value: (us: Measurement["us"]) => number): Pick<Row, "value" | "missing"> {
  return typeof outcome === "string" ? { value: Number.NaN, missing: outcome } : { value: value(outcome) };
}

/**
 * How one value stands to another, and whether that keeps a goal. One that cannot be judged was not met.
 * @param ratioMax of `ours` to `other` where less is better, the other way round where more is
 */
export function besides(
  ours: number,
  other: number,
  {
    of,
    goal,
  }: { readonly of: string; readonly goal?: { readonly words: string; readonly isMet: (ratio: number) => boolean } },
): Pick<Row, "comparedWith" | "ratio" | "goal" | "met"> {
  const ratio = other / ours;
  const compared = Number.isFinite(ratio) ? { comparedWith: of, ratio } : {};
  return goal === undefined ? compared : { ...compared, goal: goal.words, met: goal.isMet(ratio) };
}
