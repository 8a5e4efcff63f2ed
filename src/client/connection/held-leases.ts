/**
 * The leases that a client holds and the memory behind each, over all of its connections. After a
 * reconnect they are registered with the hub again.
 */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { HubConnection } from "./hub-connection.js";

/** The memory of an object, which can be brought back to a hub. */
export interface HeldMemory {
  /** The descriptors as they were first sent, which the caller closes. Empty if there are none. */
  bring(): readonly OwnedFd[];
  close(): void;
}

export interface HeldLease {
  readonly lease: number;
  readonly object: number;
  readonly access: "owner" | Access;
  /** True if it has only some of the object's descriptors: a reader of a channel. */
  readonly isPart?: boolean;
  readonly memory: HeldMemory;
}

/** Leases that can bring the most descriptors come first. */
const ORDER: readonly HeldLease["access"][] = ["owner", "read-write", "read"];

/** Messages in flight at a time. It limits the descriptors that are open for them. */
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
   * @throws INVALID_MESSAGE if the hub gave this lease before
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

  /** Returns false if the lease is not held. */
  delete(lease: number): boolean {
    const held = this.take(lease);
    held?.memory.close();
    return held !== undefined;
  }

  /** As `delete`, but the caller closes the memory. */
  take(lease: number): HeldLease | undefined {
    const held = this.#held.get(lease);
    this.#held.delete(lease);
    return held;
  }

  clear(): void {
    releaseAll([...this.#held.keys()].map((lease) => () => this.delete(lease)));
  }

  /**
   * Registers all leases with a hub that continues the session, and brings it the memory of each
   * object once. Returns the number of leases that the hub does not know: they are dropped.
   */
  async restore(connection: HubConnection, deadline: Deadline): Promise<number> {
    const all = [...this.#held.values()].sort(
      (one, other) => ORDER.indexOf(one.access) - ORDER.indexOf(other.access),
    );
    const brought = new Set<number>();
    const work = all.values();
    let lost = 0;
    const restoreSome = async () => {
      for (const held of work)
        if (!(await this.#restore(held, brought, connection, deadline))) lost += 1;
    };
    await Promise.all(Array.from({ length: Math.min(WINDOW, all.length) }, restoreSome));
    return lost;
  }

  /** Returns false if the hub does not know the lease. */
  async #restore(
    held: HeldLease,
    brought: Set<number>,
    connection: HubConnection,
    deadline: Deadline,
  ): Promise<boolean> {
    const { lease, object, isPart = false } = held;
    // Checked each time: a lease that was released meanwhile must not be named any more.
    for (let brings = isPart || !brought.has(object); this.has(lease); ) {
      const fds = brings ? bring(held.memory) : [];
      if (fds.length > 0 && !isPart) brought.add(object);
      try {
        await connection.request("restore", { lease }, deadline, fds);
        return true;
      } catch (error) {
        if (error === connection.endReason) throw error;
        if (hasCode(error, "NOT_FOUND")) return !this.delete(lease);
        // The hub takes no more messages for the moment. It answers the next one when it does.
        else if (hasCode(error, "LIMIT_EXCEEDED"))
          await new Promise((resolve) => setImmediate(resolve));
        else if (fds.length === 0) throw error;
        // Once more without memory: the hub cannot take that, and the lease is held all the same.
        else brings = false;
      } finally {
        closeFds(fds);
      }
    }
    return true;
  }
}

/** Empty if the memory was closed before its handle, or cannot be exported any more. */
function bring(memory: HeldMemory): readonly OwnedFd[] {
  try {
    return memory.bring();
  } catch (error) {
    // The next attempt may find a free descriptor.
    if (hasCode(error, "TOO_MANY_FDS")) throw error;
    // A warning: a failed GPU must not cost this client its hub and everything else.
    if (!hasCode(error, "CLOSED")) {
      process.emitWarning(
        `Memory cannot be brought back to the hub: ${String(error)}`,
        "CudaIpcReconnect",
      );
    }
    return [];
  }
}

export function duplicates(fds: readonly OwnedFd[]): readonly OwnedFd[] {
  return acquireIn((scope) => fds.map((fd) => scope.own(fd.duplicate(), (twin) => twin.close())));
}
