/** What a hub must report about itself and its objects. */
import assert from "node:assert/strict";
import type { RequestOf } from "../../../src/wire/messages.js";
import { isValidName } from "../../../src/wire/names.js";
import type { Event } from "./grant-rules.js";
import { mayOpen } from "./memory-rules.js";
import type { ModelSession } from "./model.js";

export function inspect(
  { model, judge }: Event,
  session: ModelSession,
  message: RequestOf<"inspect">,
) {
  const { id } = session.connection;
  if (!isValidName(message.name)) return judge.fails(id, message.id, "INVALID_NAME");
  const object = model.names.get(message.name);
  if (object === undefined) return judge.fails(id, message.id, "NOT_FOUND");
  if (!mayOpen(object, session, "read")) return judge.fails(id, message.id, "PERMISSION_DENIED");
  const { result } = judge.ok(id, message.id);
  const {
    object: summary,
    holders,
    holdersLeftOut,
  } = result as Record<string, { leases: number; ownerPid: unknown }>;
  assert.equal((holders as unknown as []).length + Number(holdersLeftOut), object.leases.size);
  const owner = object.ownerLease?.session.peer.pid ?? null;
  assert.deepEqual([summary?.leases, summary?.ownerPid], [object.leases.size, owner]);
}

export function list({ model, judge }: Event, session: ModelSession, message: RequestOf<"list">) {
  const { result } = judge.ok(session.connection.id, message.id);
  const { after } = message;
  const names = [...model.names.values()]
    .filter(
      (object) => mayOpen(object, session, "read") && (after === undefined || object.name > after),
    )
    .map(({ name }) => name)
    .sort();
  const found = (result.objects as { name: string }[]).map(({ name }) => name);
  assert.deepEqual(found, names.slice(0, found.length));
  assert.equal(result.next, found.length < names.length ? found.at(-1) : null);
}

export function status(
  { model, judge }: Event,
  session: ModelSession,
  message: RequestOf<"status">,
) {
  const { result } = judge.ok(session.connection.id, message.id);
  const { used } = model.hub;
  const wanted = {
    clients: model.attached,
    detached: model.connections.size - model.attached,
    objects: model.objects.size,
    withoutMemory: model.objects.size - model.withMemory,
    leases: used.leases,
    waitingOpens: used.waitingOpens,
    hostBytes: used.hostBytes,
    deviceBytes: used.deviceBytes,
  };
  for (const [what, count] of Object.entries(wanted))
    assert.equal(result[what], count, `status: ${what}`);
}
