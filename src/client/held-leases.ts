/**
 * The leases that a client holds, over all of its connections, and the memory behind each: after a connection has ended, they are what the
 * next one tells the hub of.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { closeFds, type HubConnection } from "./hub-connection.js";

/** What an object's memory can be brought back with. */
export interface HeldMemory {
  /** Descriptors as they were first sent, closed by who asked; none where this client has nothing to bring any more. */
  bring(): readonly OwnedFd[];
  close(): void;
}

export interface HeldLease {
  readonly lease: number;
  readonly object: number;
  readonly access: "owner" | Access;
  /** Where it has only some of the object's descriptors, which the hub may want beside those of others: as a reader of a channel. */
  readonly isPart?: boolean;
  readonly memory: HeldMemory;
}

/** Who can bring the most comes first. */
const ORDER: readonly HeldLease["access"][] = ["owner", "read-write", "read"];

/** Messages that are under way at a time, and so the descriptors that are open for them. */
const WINDOW = 32;

export class HeldLeases {
  readonly #held = new Map<number, HeldLease>();

  get size(): number {
    return this.#held.size;
  }

  has(lease: number): boolean {
    return this.#held.has(lease);
  }

  /**
   * Takes over the memory, unless it throws.
   * @throws INVALID_MESSAGE where the hub gave this lease before
   */
  add(held: HeldLease): void {
    if (this.#held.has(held.lease)) {
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        `Cannot hold lease ${held.lease}: the hub gave it to this client before`,
      );
    }
    this.#held.set(held.lease, held);
  }

  /** False where it is not held any more. */
  delete(lease: number): boolean {
    const held = this.take(lease);
    held?.memory.close();
    return held !== undefined;
  }

  /** As `delete`; the memory is the caller's to close. */
  take(lease: number): HeldLease | undefined {
    const held = this.#held.get(lease);
    this.#held.delete(lease);
    return held;
  }

  clear(): void {
    releaseAll([...this.#held.keys()].map((lease) => () => this.delete(lease)));
  }

  /**
   * Names all leases to a hub that goes on with the session, and brings it the memory of each object once. Returns how many of them the hub
   * does not know: they are held no longer.
   */
  async restore(connection: HubConnection, deadline: Deadline): Promise<number> {
    const all = [...this.#held.values()].sort((one, other) => ORDER.indexOf(one.access) - ORDER.indexOf(other.access));
    const brought = new Set<number>();
    const work = all.values();
    let lost = 0;
    const restoreSome = async () => {
      for (const held of work) if (!(await this.#restore(held, brought, connection, deadline))) lost += 1;
    };
    await Promise.all(Array.from({ length: Math.min(WINDOW, all.length) }, restoreSome));
    return lost;
  }

  /** False where the hub does not know it. */
  async #restore(
    held: HeldLease,
    brought: Set<number>,
    connection: HubConnection,
    deadline: Deadline,
  ): Promise<boolean> {
    const { lease, object, isPart = false } = held;
    // WHY asked each time: it may be given back meanwhile, and nothing must be said of it after that.
    for (let brings = isPart || !brought.has(object); this.has(lease); ) {
      const fds = brings ? bring(held.memory) : [];
      if (fds.length > 0 && !isPart) brought.add(object);
      try {
        await connection.request("restore", { lease }, deadline, fds);
        return true;
      } catch (error) {
        if (error === connection.endReason) throw error;
        if (hasCode(error, "NOT_FOUND")) return !this.delete(lease);
        // The hub takes no more messages for the moment, and answers the next when it does.
        else if (hasCode(error, "LIMIT_EXCEEDED")) await new Promise((resolve) => setImmediate(resolve));
        else if (fds.length === 0) throw error;
        // WHY once more without: it is the memory that the hub cannot take, and the lease is held all the same.
        else brings = false;
      } finally {
        closeFds(fds);
      }
    }
    return true;
  }
}

/** None where the memory was closed before its handle, or cannot be exported any more. */
function bring(memory: HeldMemory): readonly OwnedFd[] {
  try {
    return memory.bring();
  } catch (error) {
    // The next attempt may find some free.
    if (hasCode(error, "TOO_MANY_FDS")) throw error;
    // WHY a warning: a GPU that has failed must not cost this client its hub, with all that is not on that GPU.
    if (!hasCode(error, "CLOSED")) {
      process.emitWarning(`Memory cannot be brought back to the hub: ${String(error)}`, "CudaIpcReconnect");
    }
    return [];
  }
}

export function duplicates(fds: readonly OwnedFd[]): readonly OwnedFd[] {
  return acquireIn((scope) => fds.map((fd) => scope.own(fd.duplicate(), (twin) => twin.close())));
}
