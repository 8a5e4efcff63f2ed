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

  constructor(link: HubLink) {
    this.link = link;
  }

  /** Creates a handle that, once closed, gives back the lease and what `memory` releases. */
  track(facts: HandleFacts, memory: (() => void) | Lasting): SharedHandle {
    const handle = new SharedHandle(this.link, facts, memory, (closed) =>
      this.#handles.delete(closed),
    );
    this.#handles.add(handle);
    return handle;
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
