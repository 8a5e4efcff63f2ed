/**
 * Random numbers from a seed, so a run can be repeated: `SEED=123 npm test -- property/hostile`.
 */

export { Random } from "../../bench/random.js";

/** The seed of this run: `SEED`, else a new one. Tests print it. */
export function seedOfRun(): number {
  const given = process.env.SEED;
  return given === undefined || given === ""
    ? Math.floor(Math.random() * 2 ** 32)
    : Number(given) >>> 0;
}

/** Whether this is the long run: `NIGHTLY=1`. */
export const nightly = process.env.NIGHTLY === "1";

/**
 * Some of a list whose elements differ in little, evenly spread over it. The long run takes all.
 * @param count of those that every run takes
 */
export function someOf<T>(all: readonly T[], count: number): readonly T[] {
  if (nightly || count >= all.length) return all;
  return Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)] as T);
}

/** Whether this run leaves nothing out: `npm run test:all`, which CI runs, and the long run. */
export const thorough = nightly || process.env.TEST_SET === "all";
