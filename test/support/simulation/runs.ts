/** Many runs, one seed each, until so many steps are done; and what is told of one that fails. */
import { Simulation } from "./simulation.js";

export interface Report {
  readonly steps: number;
  readonly seeds: number[];
  readonly processes: number;
  readonly counts: Record<string, number>;
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
  const report = { steps: 0, seeds: [] as number[], processes: 0, counts: {} as Record<string, number> };
  for (let seed = firstSeed; report.steps < steps; seed += 1) {
    const sim = runSeed(seed, steps - report.steps);
    report.steps += sim.steps;
    report.processes += sim.population.total;
    report.seeds.push(seed);
    for (const [what, count] of Object.entries(sim.counts)) report.counts[what] = (report.counts[what] ?? 0) + count;
  }
  return report;
}

/** One seed, as `SIMULATION_SEED` repeats it. */
export function runSeed(seed: number, stepsAtMost = Number.POSITIVE_INFINITY): Simulation {
  const isCrowd = seed % CROWD_EVERY === 0;
  const sim = new Simulation(seed, isCrowd ? CROWD : undefined);
  const steps = Math.min(stepsAtMost, isCrowd ? CROWD_STEPS : STEPS);
  try {
    while (sim.steps < steps) sim.step();
    sim.finish();
  } catch (error) {
    const last = sim.trace.slice(-30).map((event) => JSON.stringify(event));
    const where = `seed ${seed}, step ${sim.steps} (SIMULATION_SEED=${seed} repeats it); the last events:\n${last.join("\n")}`;
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${where}`, { cause: error });
  }
  return sim;
}
