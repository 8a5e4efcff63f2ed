/** What a run of the soak reports, and what of it is wrong: pure, so that a test can show that it finds each of these. */
import type { HubSample } from "./hub-observer.js";
import type { Counts } from "./tally.js";

/**
 * How much more memory the hub may have in the end than after its warm-up. WHY so much: the collector lets the heap grow before it collects (three
 * semi-spaces of up to 16 MiB, and the old space with them), whatever the length of the run. WHY no more: an hour at the load of 1 is some
 * 500,000 operations and more, and 1 KiB left behind by each would be seven times as much.
 */
export const RSS_GROWTH_MIB_MAX = 64;

/** The same for a hub that was attacked: the heap that an attacker made it need, up to that user's limits, is given back only slowly. */
export const RSS_GROWTH_ATTACKED_MIB_MAX = 160;

export interface SoakSample extends HubSample {
  readonly atSeconds: number;
  readonly clientProcesses: number;
  /** Descriptors of memory files in all processes of the run. */
  readonly memoryFilesOfAll: number;
}

export interface SoakFindings {
  readonly hubKills: number;
  readonly keeperKills: number;
  /** How many there were of each kind; undefined if there were to be none. */
  readonly attacks: Counts | undefined;
  readonly counts: Counts;
  /** After the warm-up, with nobody there; and at the end, after everybody left. */
  readonly begin: SoakSample;
  readonly end: SoakSample;
  /** What clients found wrong: data, errors that may not be, operations that took too long, hubs that ended. */
  readonly faults: readonly string[];
}

/** Where the end must be as the beginning. */
const SAME = [
  "memoryFiles",
  "objects",
  "leases",
  "clients",
  "waitingOpens",
  "clientProcesses",
  "memoryFilesOfAll",
] as const;

/** What nothing may be left of after the warm-up already. */
const NONE = ["memoryFiles", "objects", "leases", "memoryFilesOfAll"] as const;

/** What any run does many times. */
const DONE = ["create array", "open array", "check", "close"];

/** Everything that is wrong, in words. */
export function judge({ begin, end, faults, counts, attacks }: SoakFindings): string[] {
  const wrong = [...faults];
  for (const what of NONE) {
    if (begin[what] !== 0) wrong.push(`${what}: ${begin[what]} at the beginning, wanted none`);
  }
  for (const what of SAME) {
    if (end[what] !== begin[what]) wrong.push(`${what}: ${begin[what]} at the beginning, ${end[what]} at the end`);
  }
  // WHY fewer may be: the pipe of a process that the hub started is gone some time after its start.
  if (end.fds > begin.fds) wrong.push(`fds: ${begin.fds} at the beginning, ${end.fds} at the end`);
  const growth = end.rssMiB - begin.rssMiB;
  const growthMax = attacks === undefined ? RSS_GROWTH_MIB_MAX : RSS_GROWTH_ATTACKED_MIB_MAX;
  if (growth > growthMax) {
    wrong.push(`rssMiB: grown by ${growth.toFixed(1)} MiB, wanted at most ${growthMax} MiB`);
  }
  for (const what of DONE) {
    if ((counts[what] ?? 0) === 0) wrong.push(`nothing was shown: no "${what}" succeeded`);
  }
  if (attacks !== undefined && Object.keys(attacks).length === 0) wrong.push("nothing was shown: nobody attacked");
  return wrong;
}
