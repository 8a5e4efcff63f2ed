/**
 * Rank 0's part in the forming of a group: has the group's name and memory, admits one process for each other rank, and tells
 * all who they are once all have come. Keeps the name, and refuses latecomers, until the group is closed.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { identityOf, ownIdentity } from "../os/process-identity.js";
import { openPidfd } from "../os/process-watch.js";
import { SocketClaim } from "../os/socket-claim.js";
import { decodePeerMessage } from "../wire/codec.js";
import { joinSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { type Member, ranksWithPidfd } from "./group-barrier.js";
import type { Joined } from "./group-join.js";
import { closeFds } from "./peer-link.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";

interface Admitted {
  readonly rank: number;
  readonly client: PeerClient;
  readonly member: Member;
  readonly pidfd: OwnedFd;
}

export interface GroupPlace {
  readonly path: string;
  readonly size: number;
  /** The group in messages: `group "name"`. */
  readonly label: string;
}

export class GroupHost {
  readonly #place: GroupPlace;
  readonly #claim: SocketClaim;
  readonly #listener: PeerListener;
  readonly #admitted = new Map<number, Admitted>();
  #members: readonly Member[] | undefined;
  #onHangUp: (rank: number) => void = () => {};
  #complete: () => void = () => {};
  #pidfdsAreTaken = false;
  #open = true;

  private constructor(place: GroupPlace, claim: SocketClaim) {
    this.#place = place;
    this.#claim = claim;
    this.#listener = PeerListener.listen(place.path, {
      referenced: true,
      onRequest: (client, bytes) => this.#admit(client, bytes),
      onEnd: (client) => this.#onEnd(client),
    });
  }

  /** @throws NAME_TAKEN where the name is in use */
  static start(place: GroupPlace): GroupHost {
    return acquireIn((scope) => {
      const claim = SocketClaim.tryMake(place.path);
      if (claim === undefined) {
        throw new CudaIpcError(
          "NAME_TAKEN",
          `Cannot form ${place.label}: another group at ${place.path} has this name`,
        );
      }
      scope.own(claim, (claim) => claim.release());
      return new GroupHost(place, claim);
    });
  }

  /** Waits for all, and hands each the memory. The members in order of ranks, and pidfds of the others, which are the caller's. */
  async assemble(memory: OwnedFd, deadline: Deadline): Promise<Pick<Joined, "members" | "pidfds">> {
    const complete = new Promise<void>((resolve) => {
      this.#complete = resolve;
    });
    if (this.#admitted.size < this.#place.size - 1) await deadline.race(complete, () => {});
    const others = [...this.#admitted.values()].sort((one, other) => one.rank - other.rank);
    const { pid, startTicks, pidNamespace } = ownIdentity();
    const members = [{ pid, startTicks, pidNamespace }, ...others.map(({ member }) => member)];
    this.#members = members;
    const pidfds = new Map(others.map(({ rank, pidfd }) => [rank, pidfd]));
    const own = openPidfd(pid) as OwnedFd;
    try {
      for (const { client, rank } of others) {
        const told = ranksWithPidfd(members, rank).map((of) => pidfds.get(of) ?? own);
        client.send({ v: PEER_VERSION, ok: true, members }, [memory, ...told]);
      }
    } finally {
      own.close();
    }
    this.#pidfdsAreTaken = true;
    return { members, pidfds };
  }

  /** The ranks that have not joined yet, in words; undefined once all have. */
  missing(): string | undefined {
    const { size } = this.#place;
    const missing = Array.from({ length: size }, (_, rank) => rank).filter(
      (rank) => rank > 0 && !this.#admitted.has(rank),
    );
    return missing.length === 0 ? undefined : `of its ${size} members, these have not joined: ${rankWords(missing)}`;
  }

  /** Called when a process hangs up after it was told that the group is formed, and not because all have met. */
  onHangUp(listener: (rank: number) => void): void {
    this.#onHangUp = listener;
  }

  /** All have met: what is left is to refuse latecomers, which keeps no process alive. */
  settle(): void {
    this.#onHangUp = () => {};
    this.#listener.setReferenced(false);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#onHangUp = () => {};
    const farewell =
      this.#members === undefined
        ? new CudaIpcError("BARRIER_BROKEN", `Cannot join ${this.#place.label}: rank 0 gave up forming it`)
        : new CudaIpcError("PEER_GONE", `Cannot join ${this.#place.label}: rank 0 has left it`);
    const pidfds = this.#pidfdsAreTaken ? [] : [...this.#admitted.values()].map(({ pidfd }) => pidfd);
    releaseAll([() => this.#listener.close(farewell), () => this.#claim.release(), () => closeFds(pidfds)]);
  }

  #admit(client: PeerClient, bytes: Uint8Array): void {
    const { rank, size, member } = decodePeerMessage("a request to join a group", joinSchema, bytes);
    const { label } = this.#place;
    const refuse = (code: "WRONG_KIND" | "INVALID_MESSAGE" | "NAME_TAKEN" | "UNSUPPORTED", found: string) =>
      new CudaIpcError(code, `Cannot join ${label} as rank ${rank} of ${size}: ${found}`);
    if (size !== this.#place.size) throw refuse("WRONG_KIND", `it is a group of ${this.#place.size}`);
    if (rank >= size) throw refuse("INVALID_MESSAGE", `ranks are from 0 to ${size - 1}`);
    const taken = rank === 0 ? process.pid : this.#admitted.get(rank)?.member.pid;
    if (taken !== undefined) throw refuse("NAME_TAKEN", `process ${taken} is rank ${rank}`);
    if ([...this.#admitted.values()].some((admitted) => admitted.client === client)) {
      throw refuse("INVALID_MESSAGE", "the same connection has joined before");
    }
    const found = this.#contradictionOf(client, member);
    if (found !== undefined) throw refuse("UNSUPPORTED", found);
    const pidfd = client.socket.peerPidfd();
    if (pidfd === undefined) throw refuse("UNSUPPORTED", "rank 0 cannot watch its process; see docs/containers.md");
    this.#admitted.set(rank, { rank, client, member, pidfd });
    if (this.#admitted.size === this.#place.size - 1) this.#complete();
  }

  /** A number that counts here has to be what the kernel says; any other is for messages alone. */
  #contradictionOf({ credentials }: PeerClient, member: Member): string | undefined {
    if (member.pidNamespace !== ownIdentity().pidNamespace) {
      return this.#place.size > limits.scmRightsFdsMax
        ? `a group over several PID namespaces has at most ${limits.scmRightsFdsMax} members`
        : undefined;
    }
    const startTicks = identityOf(credentials.pid)?.startTicks;
    const isSame = member.pid === credentials.pid && member.startTicks === startTicks;
    return isSame ? undefined : `it calls itself process ${member.pid}, and is ${credentials.pid}`;
  }

  #onEnd(client: PeerClient): void {
    for (const { rank, client: admitted, pidfd } of this.#admitted.values()) {
      if (admitted !== client) continue;
      // WHY only before: a rank of a group that is formed is taken for good.
      if (this.#members !== undefined) this.#onHangUp(rank);
      else if (this.#admitted.delete(rank)) pidfd.close();
    }
  }
}

/** Ranks that a message names; the others are counted. */
const NAMED_MAX = 8;

function rankWords(ranks: readonly number[]): string {
  const named = ranks.slice(0, NAMED_MAX).map((rank) => `rank ${rank}`);
  if (ranks.length > NAMED_MAX) named.push(`and ${ranks.length - NAMED_MAX} more`);
  return named.join(", ");
}
