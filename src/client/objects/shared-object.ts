/**
 * A shared object's handle: its name, its lease on the hub, and an end that gives back both lease
 * and mapping.
 */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { Scope } from "../../base/scope.js";
import { operations } from "../client-diagnostics.js";
import type { HubLink } from "../connection/hub-link.js";

export interface HandleFacts {
  readonly name: string;
  readonly object: number;
  readonly lease: number;
  /** It takes over the name of an older object, and only its lease keeps that name. */
  readonly passesName?: boolean;
}

/**
 * Something that stays in use for a while after it was closed, such as a channel or a timeline
 * whose streams are busy. It closes its handle itself once it has ended, and the lease is held
 * until then.
 */
export interface Lasting {
  close(): void;
  /** Ends it if nothing uses it any more. */
  settle(): void;
  /** As `close`. Calls under way and all later ones fail with this reason. */
  disconnect?(reason: CudaIpcError): void;
}

export interface HandleEvents {
  onPublish(handle: SharedHandle): void;
  onClose(handle: SharedHandle): void;
}

export class SharedHandle {
  readonly name: string;
  /** The hub's number of this object. Another object of the same name has another. */
  readonly object: number;
  readonly #link: HubLink;
  readonly #lease: number;
  readonly #releaseMemory: () => void;
  readonly #lasting: Lasting | undefined;
  readonly #passesName: boolean;
  readonly #events: HandleEvents;
  #mayHaveName = false;
  #open = true;
  #ending = false;

  /** @param memory releases the memory, or reports its end itself */
  constructor(
    link: HubLink,
    facts: HandleFacts,
    memory: (() => void) | Lasting,
    events: HandleEvents,
  ) {
    this.name = facts.name;
    this.object = facts.object;
    this.#link = link;
    this.#lease = facts.lease;
    this.#releaseMemory = typeof memory === "function" ? memory : () => {};
    this.#lasting = typeof memory === "function" ? undefined : memory;
    this.#passesName = facts.passesName ?? false;
    this.#events = events;
  }

  /** Makes the object visible to `open`. Publishing again changes nothing. */
  async publish(options: WaitOptions): Promise<void> {
    if (!this.#open || this.#ending)
      throw new CudaIpcError("CLOSED", `Cannot publish "${this.name}": it was closed`);
    const deadline = new Deadline(`publish "${this.name}"`, options, defaults.requestTimeoutMs);
    const check = () => {
      this.#checkHeld("publish");
      deadline.check();
      this.#mayHaveName = this.#passesName;
    };
    const { name, object } = this;
    await operations.publish.run({ name, object }, async () => {
      try {
        await this.#link.request("publish", { object }, deadline, { check });
      } catch (error) {
        if (!hasCode(error, "TIMEOUT") && !hasCode(error, "ABORTED")) this.#mayHaveName = false;
        throw error;
      }
    });
    this.#events.onPublish(this);
  }

  /**
   * True if the name of an older object has passed to this one, or may have: the hub was asked, and
   * nobody has waited for its answer. Without this handle nothing might have the name.
   */
  get mayHaveName(): boolean {
    return this.#open && this.#mayHaveName;
  }

  /** Closes the object, at once or once it is not in use any more. */
  end(): void {
    this.#ending = true;
    if (this.#lasting === undefined) this.close();
    else this.#lasting.close();
  }

  /**
   * The hub has disconnected this client. Closes a channel or a timeline, which works with others;
   * memory stays usable.
   * @returns whether it was closed, and ends once streams are done with it
   */
  disconnect(reason: CudaIpcError): boolean {
    if (this.#lasting?.disconnect === undefined) this.#lasting?.close();
    else this.#lasting.disconnect(reason);
    return this.#lasting !== undefined;
  }

  get open(): boolean {
    return this.#open;
  }

  /** See `Lasting`. */
  settle(): void {
    this.#lasting?.settle();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const scope = new Scope();
    scope.defer(() => this.#events.onClose(this));
    scope.defer(() => this.#link.release(this.#lease));
    scope.defer(() => this.#releaseMemory());
    scope.close();
  }

  /** @throws HUB_GONE */
  #checkHeld(verb: string): void {
    if (this.#link.holds(this.#lease) || !this.#open) return;
    throw new CudaIpcError(
      "HUB_GONE",
      `Cannot ${verb} "${this.name}": the hub lost it when it was started again`,
    );
  }
}
