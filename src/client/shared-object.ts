/** What every shared object has: a name, a lease on the hub, and an end that gives both lease and mapping back. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { Scope } from "../base/scope.js";
import type { HubLink } from "./hub-link.js";

export interface HandleFacts {
  readonly name: string;
  readonly object: number;
  readonly lease: number;
}

/**
 * What goes on for a while after it was closed, such as a channel or a timeline whose streams are busy. At its end it closes its handle itself, and the
 * lease is held until then: what others are told to use is not in use any more.
 */
export interface Lasting {
  close(): void;
  /** Looks whether it can end by now. */
  settle(): void;
}

export class SharedHandle {
  readonly name: string;
  /** The hub's number of this object: another object of the same name has another. */
  readonly object: number;
  readonly #link: HubLink;
  readonly #lease: number;
  readonly #releaseMemory: () => void;
  readonly #lasting: Lasting | undefined;
  readonly #onClose: (handle: SharedHandle) => void;
  #open = true;

  /** @param memory its release, or what says itself when it has ended */
  constructor(
    link: HubLink,
    facts: HandleFacts,
    memory: (() => void) | Lasting,
    onClose: (handle: SharedHandle) => void,
  ) {
    this.name = facts.name;
    this.object = facts.object;
    this.#link = link;
    this.#lease = facts.lease;
    this.#releaseMemory = typeof memory === "function" ? memory : () => {};
    this.#lasting = typeof memory === "function" ? undefined : memory;
    this.#onClose = onClose;
  }

  /** Makes the object visible to `open` on the hub. Publishing again changes nothing. */
  async publish(options: WaitOptions): Promise<void> {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot publish "${this.name}": it was closed`);
    const deadline = new Deadline(`publish "${this.name}"`, options, defaults.requestTimeoutMs);
    const check = () => this.#checkHeld("publish");
    await this.#link.request("publish", { object: this.object }, deadline, { check });
  }

  /** Closes it, or what it is a handle of where that lasts. */
  end(): void {
    if (this.#lasting === undefined) this.close();
    else this.#lasting.close();
  }

  /** See `Lasting`. */
  settle(): void {
    this.#lasting?.settle();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const scope = new Scope();
    scope.defer(() => this.#onClose(this));
    scope.defer(() => this.#link.release(this.#lease));
    scope.defer(() => this.#releaseMemory());
    scope.close();
  }

  /** @throws HUB_GONE */
  #checkHeld(verb: string): void {
    if (this.#link.holds(this.#lease) || !this.#open) return;
    throw new CudaIpcError("HUB_GONE", `Cannot ${verb} "${this.name}": the hub lost it when it was started again`);
  }
}
