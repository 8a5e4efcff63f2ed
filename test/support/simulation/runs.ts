/** Many runs, one seed each, up to a number of steps. Reports the seed of a run that fails. */
import { Simulation } from "./simulation.js";

export interface Report {
  readonly steps: number;
  readonly seeds: number[];
  readonly processes: number;
  /** The number of events of each kind. */
  readonly counts: Record<string, number>;
  /** The number of the hub's answers with each code. */
  readonly answers: Record<string, number>;
}

/** Steps of one run. Runs with a thousand processes at a time need more steps to start. */
const STEPS = 20_000;
const CROWD = 1000;
const CROWD_STEPS = 60_000;
/** One in so many runs has a crowd. */
const CROWD_EVERY = 12;

/**
 * Runs seeds in order, starting with the first.
 * @throws the first violation, with its seed, its step and the events before it
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

/** Runs one seed, which `SIMULATION_SEED` repeats. */
export function runSeed(seed: number, stepsAtMost = Number.POSITIVE_INFINITY): Simulation {
  const isCrowd = seed % CROWD_EVERY === 0;
  const { stackTraceLimit } = Error;
  // WHY: each refusal of the hub is an error, and the stacks take an eighth of the time.
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
