/**
 * A fixed number of processes that wait for each other at barriers and exchange values there. If a
 * member dies, leaves or gives up, the group breaks for all, with an error that names it.
 */
import { resolve } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { aString, integer, optionsOf, waitChecks } from "../base/option-checks.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import { waitUntil } from "../gpu/order/adaptive-wait.js";
import { closeFds } from "../os/foreign-fd.js";
import { prepareRuntimeFolder, runtimeSocketPath } from "../os/runtime-folder.js";
import { checkSocketPath } from "../os/socket-layout.js";
import { checkName } from "../wire/names.js";
import { judgeBarrier, missingWords } from "./group-barrier.js";
import { type GroupAddress, GroupHost, type Joined, joinHost } from "./group-formation.js";
import { type Member, MemberWatches } from "./group-members.js";
import { GroupWords } from "./group-words.js";

export interface GroupOptions extends WaitOptions {
  /** All members give the same name, or the same path of a socket. */
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  /** From 0 to `size - 1`, one process each. Rank 0 makes the group, the others wait for it. */
  readonly rank: number;
  readonly size: number;
}

const checkJoin = optionsOf<GroupOptions>(
  "Group.join()",
  {
    ...waitChecks,
    name: aString,
    path: aString,
    rank: integer(0),
    size: integer(1, limits.groupSizeMax),
  },
  { needs: ["rank", "size"], such: '{ name: "workers", rank: 0, size: 4 }' },
);

const checkBarrier = optionsOf<WaitOptions>("barrier()", waitChecks);

const checkAllGather = optionsOf<WaitOptions>("allGather()", waitChecks);

/** The resources of a member. */
interface Membership {
  readonly words: GroupWords;
  readonly members: readonly Member[];
  readonly watches: MemberWatches;
  /** Only of rank 0. */
  readonly host: GroupHost | undefined;
}

/** A death is known this long after the socket closes. Without a death, the member gave up. */
const DEATH_MS = 250;

export class Group {
  readonly rank: number;
  readonly size: number;
  readonly #label: string;
  readonly #membership: Membership;
  /** The barrier that this member entered last. */
  #barrier = 0;
  #waiting = false;
  #broken: CudaIpcError | undefined;
  #interrupted: CudaIpcError | undefined;
  #open = true;

  /** Takes over the resources. */
  private constructor(label: string, membership: Membership) {
    this.#label = label;
    this.#membership = membership;
    this.rank = membership.words.rank;
    this.size = membership.words.size;
  }

  /**
   * Joins a group, and resolves when all members have joined. Close the result.
   * @throws TIMEOUT, naming the ranks that are missing
   * @throws NAME_TAKEN if the name is in use, or another process has this rank
   * @throws WRONG_KIND if the group has another size
   * @throws PEER_GONE, BARRIER_BROKEN, UNTRUSTED_PEER, ABORTED
   * @example
   * using group = await Group.join({ name: "workers", rank, size: 4 });
   * const pids = await group.allGather(process.pid);
   * await group.barrier();
   */
  static async join(options: GroupOptions): Promise<Group> {
    checkJoin(options);
    const address = addressOf(options);
    const rank = checkInteger("rank", options.rank, 0, address.size - 1);
    let joined: Group | undefined;
    let host: GroupHost | undefined;
    const why = () => (joined === undefined ? host?.missing() : joined.#whoIsMissing());
    const deadline = new Deadline(`join ${address.label}`, options, defaults.peerTimeoutMs, why);
    deadline.check();
    return acquireInAsync(async (scope) => {
      const link =
        rank === 0
          ? undefined
          : scope.own(await joinHost(address, rank, deadline), ({ link }) => link.close());
      host = rank === 0 ? scope.own(GroupHost.start(address), (host) => host.close()) : undefined;
      const { words, members, pidfds } =
        link ?? (await assemble(host as GroupHost, address.size, deadline));
      // WHY nothing is awaited from here to the barrier: once rank 0 has told the members that the
      // group is complete, each must either arrive at the first barrier or be seen to have died or
      // given up.
      scope.own(words, (words) => words.leave());
      scope.defer(() => closeFds([...pidfds.values()]));
      const watches = scope.own(MemberWatches.open(members, rank, pidfds), (watches) =>
        watches.close(),
      );
      const group = new Group(address.label, { words, members, watches, host });
      joined = group;
      scope.defer(() => group.#leave());
      group.#watchHangUps();
      await group.#meet(`join ${address.label}`, deadline);
      host?.settle();
      link?.link.close();
      return group;
    });
  }

  /**
   * Waits until all members have called this. Each member must call it equally often.
   * @throws PEER_GONE, naming the rank and process that died or left
   * @throws BARRIER_BROKEN if a member gave up waiting
   * @throws TIMEOUT or ABORTED, which breaks the group for the others; CLOSED
   */
  async barrier(options: WaitOptions = {}): Promise<void> {
    checkBarrier(options);
    const attempt = `meet at a barrier of ${this.#label}`;
    await this.#meet(attempt, this.#deadline(attempt, options));
  }

  /**
   * Exchanges one JSON value of each member, at most 64 KiB each, and returns them in order of
   * ranks. It is a barrier too. The values of other members are not checked.
   * @throws the errors of `barrier`; MESSAGE_TOO_LARGE or TypeError for a value that cannot be
   * sent, before any wait
   */
  async allGather(value: unknown, options: WaitOptions = {}): Promise<unknown[]> {
    checkAllGather(options);
    const attempt = `gather from ${this.#label}`;
    const deadline = this.#deadline(attempt, options);
    const bytes = encodeValue(attempt, value);
    await this.#meet(attempt, deadline, (barrier) => this.#membership.words.give(barrier, bytes));
    const values: unknown[] = [];
    for (let rank = 0; rank < this.size; rank += 1) values.push(this.#valueOf(attempt, rank));
    return values;
  }

  /** Leaves the group. Members that wait for this one, now or later, get PEER_GONE. */
  close(): void {
    if (!this.#open) return;
    this.#leave();
    const { words, watches, host } = this.#membership;
    releaseAll([() => watches.close(), () => words.close(), () => host?.close()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #deadline(attempt: string, options: WaitOptions): Deadline {
    return new Deadline(attempt, options, defaults.peerTimeoutMs, () => this.#whoIsMissing());
  }

  #whoIsMissing(): string | undefined {
    return this.#open && this.#waiting
      ? missingWords(this.#membership.words, this.#membership.members)
      : undefined;
  }

  async #meet(
    attempt: string,
    deadline: Deadline,
    before: (barrier: number) => void = () => {},
  ): Promise<void> {
    this.#checkUsable(attempt);
    deadline.check();
    const barrier = this.#barrier + 1;
    this.#barrier = barrier;
    this.#waiting = true;
    try {
      before(barrier);
      this.#membership.words.arrive(barrier);
      await waitUntil(() => this.#isComplete(barrier, attempt), deadline);
    } catch (error) {
      if (this.#open && this.#broken === undefined) this.#giveUp(barrier, error);
      throw error;
    } finally {
      this.#waiting = false;
    }
  }

  #isComplete(barrier: number, attempt: string): boolean {
    this.#checkOpen(attempt);
    const { words, members, watches } = this.#membership;
    const group = { members, firstGone: () => watches.firstGone() };
    const verdict = judgeBarrier(words, barrier, group, attempt);
    if (verdict === "complete") return true;
    if (verdict === "waiting") {
      if (this.#interrupted === undefined) return false;
      this.#giveUp(barrier, this.#interrupted);
      throw this.#interrupted;
    }
    if (verdict.end !== undefined) words.end({ barrier, ...verdict.end });
    this.#broken = verdict.failure;
    throw verdict.failure;
  }

  /** Tells the others that this member misses this barrier and all later ones. */
  #giveUp(barrier: number, cause: unknown): void {
    this.#membership.words.end({ barrier, reason: "gaveUp", rank: this.rank });
    const found = `this process (rank ${this.rank}) gave up an earlier wait`;
    const message = `Cannot meet at a barrier of ${this.#label}: ${found}`;
    this.#broken = new CudaIpcError("BARRIER_BROKEN", message, { cause });
  }

  #valueOf(attempt: string, rank: number): unknown {
    this.#checkOpen(attempt);
    const bytes = this.#membership.words.given(rank, this.#barrier);
    let found = "gave no value at this barrier";
    try {
      if (bytes !== undefined)
        return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
    } catch {
      // The JSON error does not matter. The message below names the member.
      found = "gave a value that is not JSON";
    }
    const message = `Cannot ${attempt}: ${this.#memberWords(rank)} ${found}`;
    const error = new CudaIpcError("BARRIER_BROKEN", message);
    this.#giveUp(this.#barrier + 1, error);
    throw error;
  }

  /**
   * Rank 0 sees members that disconnect before the first barrier. Such a member gave up, or its
   * death is known soon.
   */
  #watchHangUps(): void {
    this.#membership.host?.onHangUp((rank) => {
      const timer = setTimeout(() => {
        if (!this.#open || this.#membership.words.arrived(rank) > 0n) return;
        const found = `${this.#memberWords(rank)} gave up before the first barrier`;
        const message = `Cannot form ${this.#label}: ${found}`;
        this.#interrupted = new CudaIpcError("BARRIER_BROKEN", message);
      }, DEATH_MS);
      timer.unref();
    });
  }

  #memberWords(rank: number): string {
    return `rank ${rank} (process ${this.#membership.members[rank]?.pid})`;
  }

  #leave(): void {
    if (!this.#open) return;
    this.#open = false;
    const barrier = this.#waiting ? this.#barrier : this.#barrier + 1;
    this.#membership.words.end({ barrier, reason: "left", rank: this.rank });
  }

  #checkUsable(attempt: string): void {
    this.#checkOpen(attempt);
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#waiting)
      throw new TypeError(`Cannot ${attempt}: this member already waits at a barrier`);
  }

  #checkOpen(attempt: string): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the group was closed`);
  }
}

function addressOf({ name, path, size }: GroupOptions): GroupAddress {
  if ((name === undefined) === (path === undefined))
    throw new TypeError("Group.join() needs either the option name or the option path");
  if (path !== undefined)
    return { path: checkSocketPath(resolve(path)), size, label: `the group at ${path}` };
  const socketPath = runtimeSocketPath(`group-${checkName(name as string)}.sock`);
  prepareRuntimeFolder(socketPath);
  return { path: socketPath, size, label: `group "${name}"` };
}

async function assemble(
  host: GroupHost,
  size: number,
  deadline: Deadline,
): Promise<Omit<Joined, "link">> {
  const { memory, words } = GroupWords.create(size);
  try {
    return { words, ...(await host.assemble(memory, deadline)) };
  } catch (error) {
    words.leave();
    throw error;
  } finally {
    memory.close();
  }
}

function encodeValue(attempt: string, value: unknown): Uint8Array {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined)
    throw new TypeError(`Cannot ${attempt}: ${typeof value} is not a JSON value`);
  const bytes = new TextEncoder().encode(text);
  if (bytes.byteLength <= limits.gatherBytesMax) return bytes;
  const limit = `the limit (gatherBytesMax) is ${limits.gatherBytesMax}`;
  const found = `the value has ${bytes.byteLength} bytes of JSON, ${limit}`;
  throw new CudaIpcError("MESSAGE_TOO_LARGE", `Cannot ${attempt}: ${found}`);
}
