/** When a barrier of a group is complete, and when it never will be: judged from the members' words and from who has died. */
import { CudaIpcError } from "../base/errors.js";
import type { End, GroupWords } from "./group-words.js";

export interface Member {
  readonly pid: number;
  readonly startTicks: number;
  /** The PID namespace in which the number counts. */
  readonly pidNamespace: number;
}

/**
 * The other ranks that a member watches by pidfds from rank 0: all where it, or that other, is not in rank 0's PID namespace. The others
 * it finds by their numbers. WHY not all: descriptors that are under way are limited for each user.
 */
export function ranksWithPidfd(members: readonly Member[], receiver: number): readonly number[] {
  const isLocal = (rank: number) => members[rank]?.pidNamespace === members[0]?.pidNamespace;
  const others = members.map((_, rank) => rank).filter((rank) => rank !== receiver);
  return others.filter((rank) => !isLocal(rank) || !isLocal(receiver));
}

/** Ranks that a message names; the others are counted. */
const NAMED_MAX = 3;

/** Who has not come to the barrier that this member waits at, in words. */
export function missingWords(words: GroupWords, members: readonly Member[]): string {
  const own = words.arrived(words.rank);
  const missing = members.flatMap(({ pid }, rank) =>
    words.arrived(rank) < own ? [`rank ${rank} (process ${pid})`] : [],
  );
  const named = missing.slice(0, NAMED_MAX);
  if (missing.length > NAMED_MAX) named.push(`and ${missing.length - NAMED_MAX} more`);
  return `${named.join(", ")} ${missing.length === 1 ? "has" : "have"} not come`;
}

/** What the words of a group say about a barrier that this member has entered. */
export type Verdict =
  | "waiting"
  | "complete"
  | {
      readonly failure: CudaIpcError;
      /** What this member writes for the others to see, who may not find it by themselves. */
      readonly end: Omit<End, "barrier"> | undefined;
    };

/**
 * @param firstGone the rank whose process was the first to end, where one has
 * @param attempt in words, for messages
 */
export function judgeBarrier(
  words: GroupWords,
  barrier: number,
  group: { readonly members: readonly Member[]; firstGone(): number | undefined },
  attempt: string,
): Verdict {
  const failure = (code: "PEER_GONE" | "BARRIER_BROKEN", rank: number, found: string) =>
    new CudaIpcError(code, `Cannot ${attempt}: rank ${rank} (process ${group.members[rank]?.pid}) ${found}`);
  const nonsense = (rank: number): Verdict => ({
    failure: failure("BARRIER_BROKEN", rank, "wrote what no member writes"),
    end: { reason: "gaveUp", rank: words.rank },
  });
  // SYNC: who is gone is asked before who has arrived: one that passed this barrier and ended is then seen to have passed it.
  const gone = group.firstGone();
  let gaveUp: number | undefined;
  for (let rank = 0; rank < words.size; rank += 1) {
    const end = words.ended(rank);
    if (end === "nonsense") return nonsense(rank);
    if (end === undefined || end.barrier > barrier) continue;
    if (end.reason === "left") return { failure: failure("PEER_GONE", rank, "has left the group"), end: undefined };
    if (end.reason === "sawDeath") return { failure: failure("PEER_GONE", end.rank, "has ended"), end: undefined };
    gaveUp = rank;
  }
  let missing = false;
  for (let rank = 0; rank < words.size; rank += 1) {
    const ahead = words.arrived(rank) - BigInt(barrier);
    // Nobody is further than one behind, whom this one has met before, or one ahead, where this one has yet to see the end.
    if (ahead < -1n || ahead > 1n) return nonsense(rank);
    if (ahead < 0n) missing = true;
  }
  if (!missing && gaveUp === undefined) return "complete";
  if (gone !== undefined) {
    // WHY it is told: who comes later, when the dead one is seen to have arrived before its death, must not pass where this one failed.
    return { failure: failure("PEER_GONE", gone, "has ended"), end: { reason: "sawDeath", rank: gone } };
  }
  if (gaveUp === undefined) return "waiting";
  return { failure: failure("BARRIER_BROKEN", gaveUp, "gave up waiting"), end: undefined };
}
