/** Who of the members of a group has died, told by the kernel for each. */
import { acquireIn, releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { openProcess, ownIdentity } from "../os/process-identity.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { Member } from "./group-barrier.js";

export class MemberWatches {
  readonly #gone: ReadonlySet<number>;
  readonly #watches: readonly ProcessWatch[];

  /** Takes over the watches. */
  private constructor(gone: ReadonlySet<number>, watches: readonly ProcessWatch[]) {
    this.#gone = gone;
    this.#watches = watches;
  }

  /**
   * @param pidfds those that are known, by rank; taken over, unless it throws
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
        else watches.push(scope.own(new ProcessWatch(pidfd, () => gone.add(rank)), (watch) => watch.close()));
      }
      return new MemberWatches(gone, watches);
    });
  }

  /** The rank whose process was the first to end; undefined while none has. */
  firstGone(): number | undefined {
    return this.#gone.values().next().value;
  }

  close(): void {
    releaseAll(this.#watches.map((watch) => () => watch.close()));
  }
}
