/** The handles of a joined hub's objects that are open, or that streams still use. */
import { Deadline } from "../../base/deadline.js";
import { type CudaIpcError, hasCode } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import { waitUntil } from "../../gpu/order/adaptive-wait.js";
import type { HubLink } from "../connection/hub-link.js";
import { type HandleFacts, type Lasting, SharedHandle } from "./shared-object.js";

export class OpenHandles {
  readonly link: HubLink;
  readonly #handles = new Set<SharedHandle>();
  /** By name, objects whose creator has got an error, and that keep the name all the same. */
  readonly #ownerless = new Map<string, SharedHandle>();

  constructor(link: HubLink) {
    this.link = link;
  }

  /** Creates a handle that, once closed, gives back the lease and what `memory` releases. */
  track(facts: HandleFacts, memory: (() => void) | Lasting): SharedHandle {
    const handle = new SharedHandle(this.link, facts, memory, {
      onPublish: (published) => this.nameLost(published.name, published),
      onClose: (closed) => {
        this.#handles.delete(closed);
        if (this.#ownerless.get(closed.name) === closed) this.#ownerless.delete(closed.name);
      },
    });
    this.#handles.add(handle);
    return handle;
  }

  /**
   * The creator of this object got an error. Closes it, unless the name of an older object may have
   * passed to it: then it is closed once another object of this hub has the name.
   */
  giveUp(object: number | undefined, close: () => void): void {
    const handle = [...this.#handles].find((it) => it.object === object && it.mayHaveName);
    if (handle === undefined) {
      close();
      return;
    }
    this.nameLost(handle.name, handle);
    this.#ownerless.set(handle.name, handle);
    // The hub answers that the name has passed to it, or that it never will.
    handle.publish({ timeoutMs: Number.POSITIVE_INFINITY }).catch(close);
  }

  /** @param to the object that has the name now */
  nameLost(name: string, to?: SharedHandle): void {
    const earlier = this.#ownerless.get(name);
    if (earlier !== to) earlier?.end();
  }

  close(): void {
    releaseAll([...this.#handles].map((handle) => () => handle.end()));
  }

  /**
   * The hub has disconnected this client. Ends its channels and timelines with this reason, and
   * waits for their streams. Returns false if they take longer.
   */
  disconnect(reason: CudaIpcError, timeoutMs: number): Promise<boolean> {
    const lasting = [...this.#handles].filter((handle) => handle.disconnect(reason));
    return this.#settled(() => lasting.every(({ open }) => !open), timeoutMs);
  }

  /** Waits for streams that still use closed objects. Returns false if they take longer. */
  settled(timeoutMs: number): Promise<boolean> {
    return this.#settled(() => this.#handles.size === 0, timeoutMs);
  }

  async #settled(isOver: () => boolean, timeoutMs: number): Promise<boolean> {
    const isSettled = () => {
      for (const handle of [...this.#handles]) handle.settle();
      return isOver();
    };
    try {
      await waitUntil(isSettled, new Deadline("close what was shared", { timeoutMs }, timeoutMs));
      return true;
    } catch (error) {
      // Not a failure: those who compute on the lost device are told.
      if (hasCode(error, "TIMEOUT") || hasCode(error, "DEVICE_LOST")) return false;
      throw error;
    }
  }
}
