/**
 * The descriptors that objects were opened by, kept while the objects are open. With them a client
 * can bring back what a killed hub lost, even if the owner is dead, too. One set for each object
 * and use, however often it is opened.
 */

import { closeFds } from "../../os/foreign-fd.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { duplicates, type HeldMemory } from "./held-leases.js";

interface Kept {
  readonly fds: readonly OwnedFd[];
  users: number;
}

/** One use of kept descriptors. */
export interface KeptMemory extends HeldMemory {
  readonly fds: readonly OwnedFd[];
  /** Adds one use. */
  share(): KeptMemory;
}

export class KeptDescriptors {
  readonly #kept = new Map<string, Kept>();

  /**
   * Takes over the descriptors that came with one more open of the object.
   * @param use what they are for: descriptors of a later open for the same use are closed
   */
  keep(object: number, use: string, fds: readonly OwnedFd[]): KeptMemory {
    const key = `${object} ${use}`;
    const known = this.#kept.get(key);
    if (known !== undefined) closeFds(fds);
    const kept = known ?? { fds, users: 0 };
    this.#kept.set(key, kept);
    return this.#use(key, kept);
  }

  #use(key: string, kept: Kept): KeptMemory {
    kept.users += 1;
    let isOpen = true;
    const close = () => {
      if (!isOpen) return;
      isOpen = false;
      this.#drop(key, kept);
    };
    const { fds } = kept;
    return { fds, bring: () => duplicates(fds), share: () => this.#use(key, kept), close };
  }

  #drop(key: string, kept: Kept): void {
    kept.users -= 1;
    if (kept.users > 0) return;
    this.#kept.delete(key);
    closeFds(kept.fds);
  }
}
