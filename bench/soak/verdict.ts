/**
 * The report of a soak, and what is wrong with it. Pure, so that a test can show that each fault is
 * found.
 */
import type { HubSample } from "./hub-observer.js";
import type { Counts } from "./tally.js";

/**
 * How much the hub's memory may grow after its warm-up. WHY so much: the collector lets the heap
 * grow before it collects (three semi-spaces of up to 16 MiB, and the old space), however long the
 * run is.
 * WHY no more: an hour at load 1 is over 500,000 operations, and a leak of 1 KiB each would be
 * seven times as much.
 */
export const RSS_GROWTH_MIB_MAX = 64;

/** The same for an attacked hub, whose heap shrinks only slowly after an attacker made it grow. */
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
  /** The number of each kind, or undefined without attacks. */
  readonly attacks: Counts | undefined;
  readonly counts: Counts;
  /** After the warm-up and at the end, both without clients. */
  readonly begin: SoakSample;
  readonly end: SoakSample;
  /** Faults that clients found: wrong data, unexpected errors, slow operations, hubs that ended. */
  readonly faults: readonly string[];
}

/**
 * An attacked hub serves other users, so other processes write into memory for it. Two of them
 * stay, each with a socket and a pipe at the hub.
 */
const WORD_WRITER_FDS = 4;

/** Values that must be the same at the end as at the beginning. */
const SAME = [
  "memoryFiles",
  "objects",
  "leases",
  "clients",
  "waitingOpens",
  "clientProcesses",
  "memoryFilesOfAll",
] as const;

/** Values that must be zero right after the warm-up. */
const NONE = ["memoryFiles", "objects", "leases", "memoryFilesOfAll"] as const;

/** Operations that every run does many times. */
const DONE = ["create array", "open array", "check", "close"];

/** All faults, in words. */
export function judge({ begin, end, faults, counts, attacks }: SoakFindings): string[] {
  const wrong = [...faults];
  for (const what of NONE) {
    if (begin[what] !== 0) wrong.push(`${what}: ${begin[what]} at the beginning, wanted none`);
  }
  for (const what of SAME) {
    if (end[what] !== begin[what])
      wrong.push(`${what}: ${begin[what]} at the beginning, ${end[what]} at the end`);
  }
  // There may be fewer, because the hub's pipe to a process that it started closes later.
  const fdsMax = begin.fds + (attacks === undefined ? 0 : WORD_WRITER_FDS);
  if (end.fds > fdsMax) wrong.push(`fds: ${begin.fds} at the beginning, ${end.fds} at the end`);
  const growth = end.rssMiB - begin.rssMiB;
  const growthMax = attacks === undefined ? RSS_GROWTH_MIB_MAX : RSS_GROWTH_ATTACKED_MIB_MAX;
  if (growth > growthMax) {
    wrong.push(`rssMiB: grown by ${growth.toFixed(1)} MiB, wanted at most ${growthMax} MiB`);
  }
  for (const what of DONE) {
    if ((counts[what] ?? 0) === 0) wrong.push(`nothing was shown: no "${what}" succeeded`);
  }
  if (attacks !== undefined && Object.keys(attacks).length === 0)
    wrong.push("nothing was shown: nobody attacked");
  return wrong;
}
