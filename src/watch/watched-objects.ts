/** What a hub shares and who holds it: listed once, then kept up to date from its changes. */
import { isDeepStrictEqual } from "node:util";
import type { Deadline } from "../base/deadline.js";
import { uuidOf } from "../base/device-reference.js";
import { CudaIpcError } from "../base/errors.js";
import type { HubLink } from "../client/connection/hub-link.js";
import { listHolders, listNameless } from "../client/objects/list-objects.js";
import { chargedBytes } from "../wire/descriptor.js";
import type { HeldObject } from "../wire/messages.js";
import type { WatchedObject } from "./snapshot.js";

/** WHY so long: 10,000 objects come in a hundred answers, which take seconds on a busy machine. */
const LIST_TIMEOUT_MS = 30_000;

export class WatchedObjects {
  readonly #objects = new Map<number, WatchedObject>();
  #nameless: readonly WatchedObject[] = [];
  /** The position up to which all changes are known. Undefined before the first list. */
  #next: number | undefined;
  #distrusts = 0;

  all(): Iterable<WatchedObject> {
    return this.#objects.values();
  }

  /** Those without a name that `updateNameless` found. */
  nameless(): readonly WatchedObject[] {
    return this.#nameless;
  }

  get(object: number): WatchedObject | undefined {
    return this.#objects.get(object);
  }

  /**
   * The next answer of `update` is not used, and everything is listed anew. Until then all stays as
   * it is.
   */
  distrust(): void {
    this.#next = undefined;
    this.#distrusts += 1;
  }

  clear(): void {
    this.#objects.clear();
    this.#nameless = [];
    this.distrust();
  }

  /**
   * Asks the hub what has changed.
   * @param deadline for the changes; each page of a list of everything may take as long
   * @throws INVALID_MESSAGE
   */
  async update(link: HubLink, deadline: Deadline): Promise<void> {
    for (;;) {
      const since = this.#next;
      const distrusts = this.#distrusts;
      const asked = since === undefined ? {} : { since };
      const { objects, ended, next, more, reset } = await link.request("changes", asked, deadline);
      const listed = reset ? await listHolders(link, pageDeadlines(deadline)) : undefined;
      // Another hub may have answered, which counts its changes anew.
      if (distrusts !== this.#distrusts) continue;
      if (listed !== undefined) this.#objects.clear();
      for (const object of listed ?? objects) this.#put(object);
      for (const object of ended) this.#objects.delete(object);
      if (more && next <= (since ?? 0)) throw stuck(next);
      this.#next = next;
      if (!more) return;
    }
  }

  /**
   * Lists the objects without a name. Their changes are not told, and there are few.
   * @param deadline each page may take as long
   * @param count how many all users have
   */
  async updateNameless(link: HubLink, deadline: Deadline, count: number): Promise<void> {
    const found = count === 0 ? [] : await listNameless(link, pageDeadlines(deadline));
    const before = new Map(this.#nameless.map((object) => [object.object, object]));
    // WHY: pages of the dashboard are sent each object that is not the one that they have.
    this.#nameless = found.map((entry) => {
      const object = watched(entry);
      const known = before.get(entry.object);
      return known !== undefined && isDeepStrictEqual(known, object) ? known : object;
    });
  }

  #put(object: HeldObject): void {
    this.#objects.set(object.object, watched(object));
  }
}

function watched(object: HeldObject): WatchedObject {
  const { descriptor, holders = [] } = object;
  const { hostBytes, deviceBytes } = chargedBytes(descriptor);
  const device = uuidOf(descriptor.device);
  const heldBytes = deviceBytes === 0 ? hostBytes : deviceBytes;
  // WHY not a spread: V8 then gives each object a hidden class of its own, and to sort 10,000 of
  // them takes five times as long.
  return Object.assign({}, object, { device, heldBytes, holders });
}

/** Deadlines of pages. WHY: a hub that stops in the middle of a long list is noticed soon. */
function pageDeadlines(deadline: Deadline): () => Deadline {
  const why = () => "it still lists objects";
  const whole = deadline.withTimeout(LIST_TIMEOUT_MS, why);
  return () => deadline.withTimeout(Math.min(deadline.timeoutMs, whole.remainingMs), why);
}

function stuck(next: number): CudaIpcError {
  const found = `the hub has more changes, and goes on from ${next} again`;
  return new CudaIpcError("INVALID_MESSAGE", `Cannot follow what is shared: ${found}`);
}
