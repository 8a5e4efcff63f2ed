/**
 * Decides whether a barrier is complete or can never be, from the members' words and from who has
 * died.
 */
import { CudaIpcError } from "../base/errors.js";
import { firstOf, type Member } from "./group-members.js";
import type { End, GroupWords } from "./group-words.js";

/** The members that have not arrived at this member's barrier, for errors. */
export function missingWords(words: GroupWords, members: readonly Member[]): string {
  const own = words.arrived(words.rank);
  const missing = members.flatMap(({ pid }, rank) =>
    words.arrived(rank) < own ? [`rank ${rank} (process ${pid})`] : [],
  );
  return `${firstOf(missing, 3)} ${missing.length === 1 ? "has" : "have"} not come`;
}

/** The state of a barrier that this member has entered. */
export type Verdict =
  | "waiting"
  | "complete"
  | {
      readonly failure: CudaIpcError;
      /** This member writes it down for others, because they may not find out by themselves. */
      readonly end: Omit<End, "barrier"> | undefined;
    };

/**
 * @param group its `firstGone` is the rank whose process died first
 * @param attempt in words, for messages
 */
export function judgeBarrier(
  words: GroupWords,
  barrier: number,
  group: { readonly members: readonly Member[]; firstGone(): number | undefined },
  attempt: string,
): Verdict {
  const failure = (code: "PEER_GONE" | "BARRIER_BROKEN", rank: number, found: string) =>
    new CudaIpcError(
      code,
      `Cannot ${attempt}: rank ${rank} (process ${group.members[rank]?.pid}) ${found}`,
    );
  const nonsense = (rank: number): Verdict => ({
    failure: failure("BARRIER_BROKEN", rank, "wrote a value that no member writes"),
    end: { reason: "gaveUp", rank: words.rank },
  });
  // SYNC: read who is gone before who has arrived. A member that passed this barrier and then died
  // must count as passed.
  const gone = group.firstGone();
  let gaveUp: number | undefined;
  for (let rank = 0; rank < words.size; rank += 1) {
    const end = words.ended(rank);
    if (end === "nonsense") return nonsense(rank);
    if (end === undefined || end.barrier > barrier) continue;
    if (end.reason === "left")
      return { failure: failure("PEER_GONE", rank, "has left the group"), end: undefined };
    if (end.reason === "sawDeath")
      return { failure: failure("PEER_GONE", end.rank, "has ended"), end: undefined };
    gaveUp = rank;
  }
  let missing = false;
  for (let rank = 0; rank < words.size; rank += 1) {
    const ahead = words.arrived(rank) - BigInt(barrier);
    // A correct member is at most one barrier behind (it passed the last one with us), or one ahead
    // (we have not yet seen that this one is complete).
    if (ahead < -1n || ahead > 1n) return nonsense(rank);
    if (ahead < 0n) missing = true;
  }
  if (!missing && gaveUp === undefined) return "complete";
  if (gone !== undefined) {
    // The others must be told: a later member may see that the dead one had arrived, and would pass
    // a barrier that failed here.
    return {
      failure: failure("PEER_GONE", gone, "has ended"),
      end: { reason: "sawDeath", rank: gone },
    };
  }
  if (gaveUp === undefined) return "waiting";
  return { failure: failure("BARRIER_BROKEN", gaveUp, "gave up waiting"), end: undefined };
}
