/**
 * How a group forms. Rank 0 (`GroupHost`) owns the group's name and memory, admits one process for
 * each other rank, and tells all members when the group is complete. The others find rank 0 and
 * join (`joinHost`). Rank 0 keeps the name and refuses latecomers until the group is closed.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, acquireInAsync, releaseAll } from "../base/scope.js";
import { closeFds } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { identityOf, ownIdentity } from "../os/process-identity.js";
import { openPidfd } from "../os/process-watch.js";
import { SocketClaim } from "../os/socket-file.js";
import { decodePeerMessage } from "../wire/codec.js";
import { joinedSchema, joinSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { awaitListener } from "./await-listener.js";
import { firstOf, type Member, ranksWithPidfd } from "./group-members.js";
import { GroupWords } from "./group-words.js";
import { PeerLink, refusedBy } from "./peer-link.js";
import { type PeerClient, PeerListener } from "./peer-listener.js";

interface Admitted {
  readonly rank: number;
  readonly client: PeerClient;
  readonly member: Member;
  readonly pidfd: OwnedFd;
}

export interface Joined {
  /** Open until the first barrier is complete. By it rank 0 sees a member that gives up before. */
  readonly link: PeerLink;
  readonly words: GroupWords;
  /** In order of ranks. */
  readonly members: readonly Member[];
  /** Pidfds of other members, by rank. */
  readonly pidfds: ReadonlyMap<number, OwnedFd>;
}

export interface GroupAddress {
  readonly path: string;
  readonly size: number;
  /** The group in messages: `group "name"`. */
  readonly label: string;
}

export class GroupHost {
  readonly #address: GroupAddress;
  readonly #claim: SocketClaim;
  readonly #listener: PeerListener;
  readonly #admitted = new Map<number, Admitted>();
  #members: readonly Member[] | undefined;
  #onHangUp: (rank: number) => void = () => {};
  #complete: () => void = () => {};
  #pidfdsAreTaken = false;
  #open = true;

  private constructor(address: GroupAddress, claim: SocketClaim) {
    this.#address = address;
    this.#claim = claim;
    this.#listener = PeerListener.listen(address.path, {
      referenced: true,
      onRequest: (client, bytes) => this.#admit(client, bytes),
      onEnd: (client) => this.#onEnd(client),
    });
  }

  /** @throws NAME_TAKEN if the name is in use */
  static start(address: GroupAddress): GroupHost {
    return acquireIn((scope) => {
      const claim = SocketClaim.tryMake(address.path);
      if (claim === undefined) {
        throw new CudaIpcError(
          "NAME_TAKEN",
          `Cannot form ${address.label}: another group uses ${address.path}`,
        );
      }
      scope.own(claim, (claim) => claim.release());
      return new GroupHost(address, claim);
    });
  }

  /**
   * Waits for all members and sends each the memory. Returns the members in order of ranks, and
   * pidfds of the others, which the caller closes.
   */
  async assemble(memory: OwnedFd, deadline: Deadline): Promise<Pick<Joined, "members" | "pidfds">> {
    // WHY again: a member may hang up in the same turn in which the last one has joined.
    while (this.#admitted.size < this.#address.size - 1) {
      const complete = new Promise<void>((resolve) => {
        this.#complete = resolve;
      });
      await deadline.race(complete, () => {});
    }
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

  /** The ranks that have not joined, for errors. Undefined after all have joined. */
  missing(): string | undefined {
    const { size } = this.#address;
    const missing = Array.from({ length: size }, (_, rank) => rank).filter(
      (rank) => rank > 0 && !this.#admitted.has(rank),
    );
    return missing.length === 0
      ? undefined
      : `of its ${size} members, these have not joined: ${firstOf(
          missing.map((rank) => `rank ${rank}`),
          8,
        )}`;
  }

  /**
   * Calls back when a member closes its connection after the group was formed and before the first
   * barrier is complete.
   */
  onHangUp(listener: (rank: number) => void): void {
    this.#onHangUp = listener;
  }

  /** All have met. The socket now only refuses latecomers, and keeps no process alive. */
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
        ? new CudaIpcError(
            "BARRIER_BROKEN",
            `Cannot join ${this.#address.label}: rank 0 gave up forming it`,
          )
        : new CudaIpcError("PEER_GONE", `Cannot join ${this.#address.label}: rank 0 has left it`);
    const pidfds = this.#pidfdsAreTaken
      ? []
      : [...this.#admitted.values()].map(({ pidfd }) => pidfd);
    releaseAll([
      () => this.#listener.close(farewell),
      () => this.#claim.release(),
      () => closeFds(pidfds),
    ]);
  }

  #admit(client: PeerClient, bytes: Uint8Array): void {
    const { rank, size, member } = decodePeerMessage(
      "a request to join a group",
      joinSchema,
      bytes,
    );
    const { label } = this.#address;
    const refuse = (
      code: "WRONG_KIND" | "INVALID_MESSAGE" | "NAME_TAKEN" | "UNSUPPORTED",
      found: string,
    ) => new CudaIpcError(code, `Cannot join ${label} as rank ${rank} of ${size}: ${found}`);
    if (size !== this.#address.size)
      throw refuse("WRONG_KIND", `it is a group of ${this.#address.size}`);
    if (rank >= size) throw refuse("INVALID_MESSAGE", `ranks are from 0 to ${size - 1}`);
    const taken = rank === 0 ? process.pid : this.#admitted.get(rank)?.member.pid;
    if (taken !== undefined) throw refuse("NAME_TAKEN", `process ${taken} is rank ${rank}`);
    if ([...this.#admitted.values()].some((admitted) => admitted.client === client)) {
      throw refuse("INVALID_MESSAGE", "the same connection has joined before");
    }
    const found = this.#contradictionOf(client, member);
    if (found !== undefined) throw refuse("UNSUPPORTED", found);
    const pidfd = client.socket.peerPidfd();
    if (pidfd === undefined)
      throw refuse("UNSUPPORTED", "rank 0 cannot watch its process; see docs/containers.md");
    this.#admitted.set(rank, { rank, client, member, pidfd });
    if (this.#admitted.size === this.#address.size - 1) this.#complete();
  }

  /** A pid in this namespace must be what the kernel says. Any other is only used in messages. */
  #contradictionOf({ credentials }: PeerClient, member: Member): string | undefined {
    if (member.pidNamespace !== ownIdentity().pidNamespace) {
      return this.#address.size > limits.scmRightsFdsMax
        ? `a group over several PID namespaces has at most ${limits.scmRightsFdsMax} members`
        : undefined;
    }
    const startTicks = identityOf(credentials.pid)?.startTicks;
    const isSame = member.pid === credentials.pid && member.startTicks === startTicks;
    return isSame ? undefined : `it says it is process ${member.pid}, and is ${credentials.pid}`;
  }

  #onEnd(client: PeerClient): void {
    for (const { rank, client: admitted, pidfd } of this.#admitted.values()) {
      if (admitted !== client) continue;
      // A rank of a complete group stays taken.
      if (this.#members !== undefined) this.#onHangUp(rank);
      else if (this.#admitted.delete(rank)) pidfd.close();
    }
  }
}

/** Joins as any rank but 0. The caller closes link, words and pidfds. */
export function joinHost(address: GroupAddress, rank: number, deadline: Deadline): Promise<Joined> {
  return acquireInAsync(async (scope) => {
    const link = scope.own(
      await awaitListener(address.path, deadline, () => PeerLink.connect(address.path)),
      (link) => link.close(),
    );
    const { pid, startTicks, pidNamespace } = ownIdentity();
    const member = { pid, startTicks, pidNamespace };
    const request = { v: PEER_VERSION, op: "join", rank, size: address.size, member } as const;
    const { bytes, fds } = await link.request(request, deadline).catch((error: unknown) => {
      if (!hasCode(error, "TIMEOUT")) throw error;
      const found = `rank 0 (process ${link.pid}) waits for other members, or is stopped`;
      throw deadline.timedOut(found, error);
    });
    scope.own(fds, closeFds);
    const members = readMembers(address, rank, bytes);
    const ranks = ranksWithPidfd(members, rank);
    const [memory, ...pidfds] = fds;
    if (memory === undefined || pidfds.length !== ranks.length) {
      const found = `${fds.length} file descriptors came, wanted ${1 + ranks.length}`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot join ${address.label}: ${found}`);
    }
    const words = GroupWords.open(memory, rank, address.size);
    memory.close();
    return {
      link,
      words,
      members,
      pidfds: new Map(ranks.map((of, index) => [of, pidfds[index] as OwnedFd])),
    };
  });
}

function readMembers(
  { label, size }: GroupAddress,
  rank: number,
  bytes: Uint8Array,
): readonly Member[] {
  const reply = decodePeerMessage(`the answer of rank 0 of ${label}`, joinedSchema, bytes);
  if (!reply.ok) throw refusedBy(reply);
  if (reply.members.length === size && reply.members[rank]?.pid === process.pid)
    return reply.members;
  const found =
    `rank 0 names ${reply.members.length} members, ` +
    `with process ${reply.members[rank]?.pid} as rank ${rank}`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot join ${label}: ${found}`);
}
