/** The members of a group, and pidfd watches that tell which have died. */
import { acquireIn, releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { openProcess, ownIdentity } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";

export interface Member {
  readonly pid: number;
  readonly startTicks: number;
  /** The PID namespace of `pid`. */
  readonly pidNamespace: number;
}

/**
 * The ranks that a member watches by pidfds from rank 0: those outside rank 0's PID namespace, or
 * all if it is outside itself. It finds the others by their pids. Linux limits the descriptors in
 * flight for each user, so rank 0 does not send a pidfd for every rank.
 */
export function ranksWithPidfd(members: readonly Member[], receiver: number): readonly number[] {
  const isLocal = (rank: number) => members[rank]?.pidNamespace === members[0]?.pidNamespace;
  const others = members.map((_, rank) => rank).filter((rank) => rank !== receiver);
  return others.filter((rank) => !isLocal(rank) || !isLocal(receiver));
}

/** Joins at most `max` words, and counts the rest. */
export function firstOf(words: readonly string[], max: number): string {
  const named = words.slice(0, max);
  if (words.length > max) named.push(`and ${words.length - max} more`);
  return named.join(", ");
}

export class MemberWatches {
  readonly #gone: ReadonlySet<number>;
  readonly #watches: readonly ProcessWatch[];

  /** Takes over the watches. */
  private constructor(gone: ReadonlySet<number>, watches: readonly ProcessWatch[]) {
    this.#gone = gone;
    this.#watches = watches;
  }

  /**
   * @param pidfds known pidfds by rank; taken over unless this throws
   * @throws TOO_MANY_FDS
   */
  static open(
    members: readonly Member[],
    ownRank: number,
    pidfds: ReadonlyMap<number, OwnedFd> = new Map(),
  ): MemberWatches {
    const { bootId } = ownIdentity();
    const gone = new Set<number>();
    return acquireIn((scope) => {
      const watches: ProcessWatch[] = [];
      for (const [rank, member] of members.entries()) {
        if (rank === ownRank) continue;
        const pidfd = pidfds.get(rank) ?? openProcess({ ...member, bootId });
        if (pidfd === undefined) gone.add(rank);
        else
          watches.push(
            scope.own(new ProcessWatch(pidfd, () => gone.add(rank)), (watch) => watch.close()),
          );
      }
      return new MemberWatches(gone, watches);
    });
  }

  /** The rank whose process died first; undefined if none has. */
  firstGone(): number | undefined {
    return this.#gone.values().next().value;
  }

  close(): void {
    releaseAll(this.#watches.map((watch) => () => watch.close()));
  }
}
