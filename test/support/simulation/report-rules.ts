/** What a hub must report about itself and its objects. */
import assert from "node:assert/strict";
import type { RequestOf, ResultOf } from "../../../src/wire/messages.js";
import { isValidName } from "../../../src/wire/names.js";
import type { Event } from "./grant-rules.js";
import { bytesOf, mayOpen } from "./memory-rules.js";
import type { Model, ModelSession } from "./model.js";
import { visible } from "./visible-objects.js";

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
  const { after, nameless } = message;
  if (nameless) return listNameless(model, session, after, result as ResultOf<"list">);
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

/** The numbers, as texts of one length, are in the order of the objects. */
function listNameless(
  model: Model,
  session: ModelSession,
  after: string | undefined,
  { objects, next }: ResultOf<"list">,
): void {
  const place = (object: number) => String(object).padStart(16, "0");
  const wanted = [...model.objects.values()]
    .filter((object) => !object.named && mayOpen(object, session, "read"))
    .filter(({ id }) => after === undefined || place(id) > after)
    .sort((one, other) => one.id - other.id)
    .map(({ id, name, leases, published }) => [id, name, leases.size, published, true]);
  const found = objects.map((it) => [it.object, it.name, it.leases, it.published, it.nameless]);
  assert.deepEqual(found, wanted.slice(0, found.length));
  assert.equal(next, found.length < wanted.length ? place(objects.at(-1)?.object ?? 0) : null);
}

/** A client that applies all changes knows what a new list would say. */
export function changes(
  { model, judge }: Event,
  session: ModelSession,
  { id, since, wait = false }: RequestOf<"changes">,
) {
  const { view } = session;
  if (wait && !judge.hasReply(session.connection.id, id)) {
    if (view !== undefined && since === view.next)
      assert.deepEqual(view.objects, visible(model, session), "it waits for no change of before");
    judge.changeWaits.add(model, session, id, since);
    return;
  }
  const result = judge.ok(session.connection.id, id).result as unknown as ResultOf<"changes">;
  const { objects, ended, next, more, reset } = result;
  assert.ok(!wait || reset || more || objects.length + ended.length > 0, "there is news");
  if (reset) {
    session.view = { next, objects: visible(model, session) };
    return;
  }
  assert.ok(since !== undefined && next >= since);
  session.view = undefined;
  if (since !== view?.next) return;
  for (const { object, leases, published, hasMemory, ownerPid, holders } of objects) {
    assert.equal(holders?.length, leases);
    view.objects.set(object, [leases, published, hasMemory, ownerPid]);
  }
  for (const object of ended) view.objects.delete(object);
  if (!more) assert.deepEqual(view.objects, visible(model, session));
  session.view = { ...view, next };
}

export function clients(
  { model, judge }: Event,
  session: ModelSession,
  { id, after = 0 }: RequestOf<"clients">,
) {
  const result = judge.ok(session.connection.id, id).result as unknown as ResultOf<"clients">;
  const { uid } = session.peer;
  const seesAll = uid === 0 || uid === model.policy.uid;
  const seen = [...model.sessions.values()]
    .filter((other) => other.id > after && (seesAll || other.peer.uid === uid))
    .sort((one, other) => one.id - other.id)
    .map((other) => [other.id, other.connection.attached, other.leases.size, other.waits.size]);
  const found = result.clients.map((it) => [it.session, it.connected, it.leases, it.waitingOpens]);
  assert.deepEqual(found, seen.slice(0, found.length));
  assert.equal(result.next, found.length < seen.length ? found.at(-1)?.[0] : null);
}

export function status(
  { model, judge }: Event,
  session: ModelSession,
  message: RequestOf<"status">,
) {
  const { result } = judge.ok(session.connection.id, message.id);
  const { used } = model.hub;
  const nameless = [...model.objects.values()].filter(({ named }) => !named);
  const sum = (field: "hostBytes" | "deviceBytes") =>
    nameless.reduce((bytes, { descriptor }) => bytes + bytesOf(descriptor)[field], 0);
  assert.deepEqual(result.nameless, {
    objects: nameless.length,
    hostBytes: sum("hostBytes"),
    deviceBytes: sum("deviceBytes"),
  });
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
