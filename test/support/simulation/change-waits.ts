/** Requests for changes that the hub keeps waiting, because the client knows all that there is. */
import assert from "node:assert/strict";
import type { ConnectionId } from "../../../src/hub/core/ports.js";
import type { ResultOf } from "../../../src/wire/messages.js";
import type { Model, ModelSession } from "./model.js";
import { visible } from "./visible-objects.js";
import type { SentReply } from "./world.js";

interface ChangeWait {
  readonly request: number;
  readonly since: number | undefined;
  readonly session: ModelSession;
  /** The objects that the hub showed this client when it began to wait. */
  readonly seen: ReturnType<typeof visible>;
}

export class ChangeWaits {
  readonly #waits = new Map<ConnectionId, ChangeWait>();

  add(model: Model, session: ModelSession, request: number, since: number | undefined): void {
    const { id } = session.connection;
    assert.ok(!this.#waits.has(id), "a later request answers an earlier one of the session");
    this.#waits.set(id, { request, since, session, seen: visible(model, session) });
  }

  /** Whether a reply ends a wait. It may come at any step of an event. */
  ends({ connection, reply, fds }: SentReply): boolean {
    const wait = this.#waits.get(connection);
    if (wait === undefined || wait.request !== reply.id) return false;
    this.#waits.delete(connection);
    assert.ok(reply.ok);
    const { next, ...result } = reply.result as ResultOf<"changes">;
    assert.deepEqual([result, fds], [{ objects: [], ended: [], more: true, reset: false }, []]);
    // It may have passed over changes that this client may not see.
    assert.ok(next >= (wait.since ?? 0));
    const { view } = wait.session;
    if (view !== undefined && view.next === wait.since) view.next = next;
    return true;
  }

  /** Checks after an event that nobody waits who would see something new. */
  check(model: Model): void {
    for (const [connection, { session, seen }] of this.#waits) {
      const known = model.connections.get(connection);
      // The hub drops the wait with the connection.
      if (known?.attached !== true || session.connection !== known) this.#waits.delete(connection);
      else assert.deepEqual(visible(model, session), seen, "a change ends the wait");
    }
  }
}
