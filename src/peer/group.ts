/**
 * A fixed number of processes that meet: each has a rank, all wait for each other at barriers, and all exchange values there.
 * A member that dies, leaves or gives up breaks the group for everybody, with an error that names it.
 */
import { resolve } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { acquireInAsync, releaseAll } from "../base/scope.js";
import { waitUntil } from "../gpu/adaptive-wait.js";
import { prepareRuntimeFolder, runtimeSocketPath } from "../os/runtime-folder.js";
import { checkSocketPath } from "../os/seqpacket.js";
import { checkName } from "../wire/names.js";
import { judgeBarrier, type Member, missingWords } from "./group-barrier.js";
import { GroupHost, type GroupPlace } from "./group-host.js";
import { type Joined, joinHost } from "./group-join.js";
import { GroupWords } from "./group-words.js";
import { MemberWatches } from "./member-watches.js";
import { closeFds } from "./peer-link.js";

export interface GroupOptions extends WaitOptions {
  /** All members give the same name, or the same path of a socket. */
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  /** From 0 to `size - 1`; one process each. Rank 0 makes the group, the others wait for it. */
  readonly rank: number;
  readonly size: number;
}

/** Everything that a member holds. */
interface Held {
  readonly words: GroupWords;
  readonly members: readonly Member[];
  readonly watches: MemberWatches;
  /** Of rank 0. */
  readonly host: GroupHost | undefined;
}

/** How long a death takes at most to be told after a socket hung up; until then a hang-up may be either. */
const DEATH_MS = 250;

export class Group {
  readonly rank: number;
  readonly size: number;
  readonly #label: string;
  readonly #held: Held;
  /** The barrier that was entered last. */
  #barrier = 0;
  #waiting = false;
  #broken: CudaIpcError | undefined;
  #interrupted: CudaIpcError | undefined;
  #open = true;

  /** Takes over what is held. */
  private constructor(label: string, held: Held) {
    this.#label = label;
    this.#held = held;
    this.rank = held.words.rank;
    this.size = held.words.size;
  }

  /**
   * Resolves once all members have joined. Close the result.
   * @throws TIMEOUT, NAME_TAKEN where the name is in use or another process has this rank, WRONG_KIND where the group is of another
   * size, PEER_GONE, BARRIER_BROKEN, UNTRUSTED_PEER, ABORTED
   * @example
   * using group = await Group.join({ name: "workers", rank, size: 4 });
   * const pids = await group.allGather(process.pid);
   * await group.barrier();
   */
  static async join(options: GroupOptions): Promise<Group> {
    const place = placeOf(options);
    const rank = checkInteger("rank", options.rank, 0, place.size - 1);
    let joined: Group | undefined;
    let host: GroupHost | undefined;
    const why = () => (joined === undefined ? host?.missing() : joined.#whoIsMissing());
    const deadline = new Deadline(`join ${place.label}`, options, defaults.peerTimeoutMs, why);
    deadline.check();
    return acquireInAsync(async (scope) => {
      const link =
        rank === 0 ? undefined : scope.own(await joinHost(place, rank, deadline), ({ link }) => link.close());
      host = rank === 0 ? scope.own(GroupHost.start(place), (host) => host.close()) : undefined;
      const { words, members, pidfds } = link ?? (await assemble(host as GroupHost, place.size, deadline));
      // WHY nothing is awaited from here to the barrier: from the moment in which rank 0 tells all that the group is formed,
      // whoever does not come to the first barrier must be seen to have died or given up.
      scope.own(words, (words) => words.close());
      scope.defer(() => closeFds([...pidfds.values()]));
      const watches = scope.own(MemberWatches.open(members, rank, pidfds), (watches) => watches.close());
      const group = new Group(place.label, { words, members, watches, host });
      joined = group;
      scope.defer(() => group.#leave());
      group.#watchHangUps();
      await group.#meet(`join ${place.label}`, deadline);
      host?.settle();
      link?.link.close();
      return group;
    });
  }

  /**
   * Waits until all members are here, as many times as it is called; each calls it as often as the others.
   * @throws PEER_GONE naming the rank and process that died or left; BARRIER_BROKEN where a member gave up waiting; TIMEOUT and
   * ABORTED, which break the group for the others; CLOSED
   */
  async barrier(options: WaitOptions = {}): Promise<void> {
    const attempt = `meet at a barrier of ${this.#label}`;
    await this.#meet(attempt, this.#deadline(attempt, options));
  }

  /**
   * The values of all members in order of ranks, each given as JSON of at most 64 KiB; a barrier as well. What the others gave is
   * not checked.
   * @throws as `barrier`; MESSAGE_TOO_LARGE and TypeError for a value that cannot be given, before anything is waited for
   */
  async allGather(value: unknown, options: WaitOptions = {}): Promise<unknown[]> {
    const attempt = `gather from ${this.#label}`;
    const deadline = this.#deadline(attempt, options);
    const bytes = encodeValue(attempt, value);
    await this.#meet(attempt, deadline, (barrier) => this.#held.words.give(barrier, bytes));
    const values: unknown[] = [];
    for (let rank = 0; rank < this.size; rank += 1) values.push(this.#valueOf(attempt, rank));
    return values;
  }

  /** Leaves the group. Members who still wait for this one, now or later, get PEER_GONE. */
  close(): void {
    if (!this.#open) return;
    this.#leave();
    const { words, watches, host } = this.#held;
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
    return this.#open && this.#waiting ? missingWords(this.#held.words, this.#held.members) : undefined;
  }

  async #meet(attempt: string, deadline: Deadline, before: (barrier: number) => void = () => {}): Promise<void> {
    this.#checkUsable(attempt);
    deadline.check();
    const barrier = this.#barrier + 1;
    this.#barrier = barrier;
    this.#waiting = true;
    try {
      before(barrier);
      this.#held.words.arrive(barrier);
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
    const { words, members, watches } = this.#held;
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

  /** Tells the others that this member will not be at this barrier, nor at any later one. */
  #giveUp(barrier: number, cause: unknown): void {
    this.#held.words.end({ barrier, reason: "gaveUp", rank: this.rank });
    const message = `Cannot meet at a barrier of ${this.#label}: rank ${this.rank}, this process, gave up waiting before`;
    this.#broken = new CudaIpcError("BARRIER_BROKEN", message, { cause });
  }

  #valueOf(attempt: string, rank: number): unknown {
    this.#checkOpen(attempt);
    const bytes = this.#held.words.given(rank, this.#barrier);
    let found = "came to this barrier with nothing to give";
    try {
      if (bytes !== undefined) return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    } catch {
      // What it is instead of JSON concerns nobody: that it came from a member that breaks the rules is told below.
      found = "gave what is not JSON";
    }
    const message = `Cannot ${attempt}: rank ${rank} (process ${this.#held.members[rank]?.pid}) ${found}`;
    const error = new CudaIpcError("BARRIER_BROKEN", message);
    this.#giveUp(this.#barrier + 1, error);
    throw error;
  }

  /** Rank 0 sees who hangs up on the way to the first barrier: one that gave up there, or one whose death is told in a moment. */
  #watchHangUps(): void {
    this.#held.host?.onHangUp((rank) => {
      const timer = setTimeout(() => {
        if (!this.#open || this.#held.words.arrived(rank) > 0n) return;
        const found = `rank ${rank} (process ${this.#held.members[rank]?.pid}) gave up on the way`;
        this.#interrupted = new CudaIpcError("BARRIER_BROKEN", `Cannot form ${this.#label}: ${found}`);
      }, DEATH_MS);
      timer.unref();
    });
  }

  #leave(): void {
    if (!this.#open) return;
    this.#open = false;
    const barrier = this.#waiting ? this.#barrier : this.#barrier + 1;
    this.#held.words.end({ barrier, reason: "left", rank: this.rank });
  }

  #checkUsable(attempt: string): void {
    this.#checkOpen(attempt);
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#waiting) throw new TypeError(`Cannot ${attempt}: another wait of this member is under way`);
  }

  #checkOpen(attempt: string): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the group was closed`);
  }
}

function placeOf({ name, path, size }: GroupOptions): GroupPlace {
  checkInteger("size", size, 1, limits.groupSizeMax);
  if ((name === undefined) === (path === undefined)) throw new TypeError("A group has either a name or a path");
  if (path !== undefined) return { path: checkSocketPath(resolve(path)), size, label: `the group at ${path}` };
  const socketPath = runtimeSocketPath(`group-${checkName(name as string)}.sock`);
  prepareRuntimeFolder(socketPath);
  return { path: socketPath, size, label: `group "${name}"` };
}

async function assemble(host: GroupHost, size: number, deadline: Deadline): Promise<Omit<Joined, "link">> {
  const { memory, words } = GroupWords.create(size);
  try {
    return { words, ...(await host.assemble(memory, deadline)) };
  } catch (error) {
    words.close();
    throw error;
  } finally {
    memory.close();
  }
}

function encodeValue(attempt: string, value: unknown): Uint8Array {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`Cannot ${attempt}: ${typeof value} is no value of JSON`);
  const bytes = new TextEncoder().encode(text);
  if (bytes.byteLength <= limits.gatherBytesMax) return bytes;
  const found = `${bytes.byteLength} bytes of JSON, the limit (gatherBytesMax) is ${limits.gatherBytesMax}`;
  throw new CudaIpcError("MESSAGE_TOO_LARGE", `Cannot ${attempt}: ${found}`);
}
