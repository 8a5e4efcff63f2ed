/** Many runs, one seed each, up to a number of steps. Reports the seed of a run that fails. */
import { Simulation } from "./simulation.js";

export interface Report {
  readonly steps: number;
  readonly seeds: number[];
  readonly processes: number;
  /** Events, by their kind. */
  readonly counts: Record<string, number>;
  /** Answers of the hub, by their code. */
  readonly answers: Record<string, number>;
}

/** Steps of one run; those with a thousand processes at a time take more to get under way. */
const STEPS = 20_000;
const CROWD = 1000;
const CROWD_STEPS = 60_000;
/** Every so many runs, one has a crowd. */
const CROWD_EVERY = 12;

/**
 * Runs seeds one after the other, from the first.
 * @throws the first violation, with its seed, step and what came before it
 */
export function simulate(steps: number, firstSeed: number): Report {
  const report: { -readonly [Key in keyof Report]: Report[Key] } = {
    steps: 0,
    seeds: [],
    processes: 0,
    counts: {},
    answers: {},
  };
  for (let seed = firstSeed; report.steps < steps; seed += 1) {
    const sim = runSeed(seed, steps - report.steps);
    report.steps += sim.steps;
    report.processes += sim.population.total;
    report.seeds.push(seed);
    addTo(report.counts, sim.counts);
    addTo(report.answers, sim.answers);
  }
  return report;
}

/** One seed, as `SIMULATION_SEED` repeats it. */
export function runSeed(seed: number, stepsAtMost = Number.POSITIVE_INFINITY): Simulation {
  const isCrowd = seed % CROWD_EVERY === 0;
  const { stackTraceLimit } = Error;
  // WHY: every refusal of the hub is an error, and their stacks are an eighth of the work.
  if (process.env.SIMULATION_SEED === undefined) Error.stackTraceLimit = 0;
  const sim = new Simulation(seed, isCrowd ? CROWD : undefined);
  const steps = Math.min(stepsAtMost, isCrowd ? CROWD_STEPS : STEPS);
  try {
    while (sim.steps < steps) sim.turn();
    sim.finish();
  } catch (error) {
    const last = sim.trace.slice(-30).map((event) => JSON.stringify(event));
    const where = `seed ${seed}, step ${sim.steps} (SIMULATION_SEED=${seed} repeats it); the last events:\n${last.join("\n")}`;
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${where}`, {
      cause: error,
    });
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return sim;
}

function addTo(sums: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [what, count] of Object.entries(counts)) sums[what] = (sums[what] ?? 0) + count;
}
