/**
 * Runs the same loop in TypeScript and in C, in turns. Compares the medians with each other and
 * with a goal.
 */
import { fileURLToPath } from "node:url";
import type { CPrograms } from "./c-programs.js";
import type { Figure, Row } from "./measure.js";
import { type Measurement, type Program, runTogether } from "./processes.js";

export interface Goal {
  /** The ratio of the TypeScript median to that of C. */
  readonly ratioMax?: number;
  readonly usMax?: number;
}

/** One benchmark: a program in C and an actor of the same name. */
export interface Benchmark {
  readonly name: string;
  readonly roles: readonly string[];
  readonly iterations: number;
  /** The measurements that it prints, in words, with their goals. */
  readonly rows: Readonly<Record<string, { readonly what: string; readonly goal?: Goal }>>;
}

export interface RoundOptions {
  readonly device: string;
  readonly rounds: number;
  /** Replaces the benchmark's own number. */
  readonly iterations?: number | undefined;
}

export async function sideBySide(
  benchmark: Benchmark,
  c: CPrograms,
  options: RoundOptions,
): Promise<Row[]> {
  const iterations = options.iterations ?? benchmark.iterations;
  const actor = fileURLToPath(new URL(`./actors/${benchmark.name}.js`, import.meta.url));
  const ours = benchmark.roles.map(
    (role): Program => ({
      command: process.execPath,
      args: [actor, options.device, String(iterations), role],
    }),
  );
  let theirs = c.program(benchmark.name, iterations);
  const measured: { readonly ts: Measurement[]; readonly c: Measurement[] } = { ts: [], c: [] };
  for (let round = 0; round < options.rounds; round += 1) {
    measured.ts.push(...(await runTogether(ours)));
    if (typeof theirs === "string") continue;
    try {
      measured.c.push(...(await runTogether([theirs])));
    } catch (error) {
      // Not thrown: an older driver may lack what the C program needs, and our result is valid
      // without it.
      theirs = `failed: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return Object.entries(benchmark.rows).map(([name, { what, goal }]) => {
    const ts = figureOf(name, measured.ts);
    const inC = typeof theirs === "string" ? `${name}: ${theirs}` : figureOf(name, measured.c);
    return row({ name, what, ts, inC, goal: options.device === "host" ? undefined : goal });
  });
}

/** No goal on the host device: its streams are queues on the event loop, which C does not have. */
function row(found: {
  readonly name: string;
  readonly what: string;
  readonly ts: Figure;
  readonly inC: Figure | string;
  readonly goal: Goal | undefined;
}): Row {
  const { name, what, ts, inC, goal } = found;
  const measured: Row = { name, what, value: ts.median, unit: "us", rounds: ts, inC };
  const ratio = typeof inC === "string" ? undefined : ts.median / inC.median;
  const compared = ratio === undefined ? measured : { ...measured, comparedWith: "C", ratio };
  if (goal?.usMax !== undefined) {
    return { ...compared, goal: `under ${goal.usMax} us`, met: ts.median < goal.usMax };
  }
  if (goal?.ratioMax === undefined) return compared;
  // A goal without a result counts as missed.
  return {
    ...compared,
    goal: `within ${goal.ratioMax} times C`,
    met: ratio !== undefined && ratio <= goal.ratioMax,
  };
}

/** The best and the middle median of the rounds, with the 99th percentile of the latter. */
function figureOf(name: string, measurements: readonly Measurement[]): Figure {
  const rounds = measurements.filter((it) => it.name === name).sort((a, b) => a.us.p50 - b.us.p50);
  const best = rounds[0];
  const middle = rounds[Math.floor((rounds.length - 1) / 2)];
  if (best === undefined || middle === undefined)
    throw new Error(`Nothing was measured for ${name}`);
  return { best: best.us.p50, median: middle.us.p50, p99: middle.us.p99 };
}
