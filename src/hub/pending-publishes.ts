/** Publications that are answered once the object is kept for the next hub. */
import type { ConnectionId } from "./ports.js";

export interface PendingPublish {
  readonly connection: ConnectionId;
  readonly request: number;
}

export class PendingPublishes {
  readonly #byObject = new Map<number, PendingPublish[]>();

  add(object: number, pending: PendingPublish): void {
    this.#byObject.set(object, [...(this.#byObject.get(object) ?? []), pending]);
  }

  take(object: number): readonly PendingPublish[] {
    const pending = this.#byObject.get(object) ?? [];
    this.#byObject.delete(object);
    return pending;
  }

  clear(): void {
    this.#byObject.clear();
  }
}
