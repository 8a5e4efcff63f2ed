/** When a barrier of a group is complete, and when it never will be: judged from the members' words and from who has died. */
import { CudaIpcError } from "../base/errors.js";
import type { GroupWords } from "./group-words.js";

export interface Member {
  readonly pid: number;
  readonly startTicks: number;
}

/** What the words of a group say about a barrier that this member has entered. */
export type Verdict =
  | "waiting"
  | "complete"
  | {
      readonly failure: CudaIpcError;
      /** Found by this member alone, so that it is the one to tell the others. */
      readonly tellOthers: boolean;
    };

/**
 * @param isGone whether the process of a rank has ended
 * @param attempt in words, for messages
 */
export function judgeBarrier(
  words: GroupWords,
  barrier: number,
  group: { readonly members: readonly Member[]; isGone(rank: number): boolean },
  attempt: string,
): Verdict {
  const nameOf = (rank: number) => `rank ${rank} (process ${group.members[rank]?.pid})`;
  const fail = (code: "PEER_GONE" | "BARRIER_BROKEN", rank: number, found: string, tellOthers = false): Verdict => ({
    failure: new CudaIpcError(code, `Cannot ${attempt}: ${nameOf(rank)} ${found}`),
    tellOthers,
  });
  // SYNC: who is gone is asked before who has arrived: one that passed this barrier and ended is then seen to have passed it.
  const gone = group.members.findIndex((_, rank) => group.isGone(rank));
  let gaveUp = -1;
  for (let rank = 0; rank < words.size; rank += 1) {
    const end = words.ended(rank);
    if (end === "nonsense") return fail("BARRIER_BROKEN", rank, "wrote what no member writes", true);
    if (end === undefined || end.barrier > barrier) continue;
    if (end.reason === "left") return fail("PEER_GONE", rank, "has left the group");
    gaveUp = rank;
  }
  let missing = false;
  for (let rank = 0; rank < words.size; rank += 1) {
    const ahead = words.arrived(rank) - BigInt(barrier);
    // Nobody is further than one behind, whom this one has met before, or one ahead, where this one has yet to see the end.
    if (ahead < -1n || ahead > 1n) return fail("BARRIER_BROKEN", rank, "wrote what no member writes", true);
    if (ahead < 0n) missing = true;
  }
  if (!missing && gaveUp < 0) return "complete";
  if (gone >= 0) return fail("PEER_GONE", gone, "has ended");
  if (gaveUp >= 0) return fail("BARRIER_BROKEN", gaveUp, "gave up waiting");
  return "waiting";
}
