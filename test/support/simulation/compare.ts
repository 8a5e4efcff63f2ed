/**
 * Compares all that the core knows with all that the model knows, and both with the journal's
 * records.
 */
import assert from "node:assert/strict";
import { HubCore } from "../../../src/hub/core/hub-core.js";
import { recordsOf, replay } from "../../../src/hub/restart/hub-records.js";
import { checkWords } from "./channel-rules.js";
import type { Model, ModelObject } from "./model.js";
import type { Simulation } from "./simulation.js";
import { Tally } from "./tally.js";
import { World } from "./world.js";

export function compare(sim: Simulation): void {
  const { core, model, world } = sim;
  sim.counts.comparison = (sim.counts.comparison ?? 0) + 1;
  const state = core.state();
  const found = {
    objects: [...state.objects.values()].map(({ record, published, named }) => [
      record.id,
      record.name,
      published,
      named,
      record.serviceUsers,
    ]),
    leases: [...state.leases.values()].map(({ id, object, session, kind, role, place }) => {
      return [id, object, session, kind, role, place ?? undefined];
    }),
    sessions: [...state.sessions.keys()].map((id) => [id]),
    memory: [...world.store].map(([id, held]) => [id, ...held.map(({ file }) => file.number)]),
  };
  const objects = [...model.objects.values()];
  const leases = objects.flatMap((object) => [...object.leases.values()]);
  const wanted = {
    objects: objects.map(({ id, name, published, named, serviceUsers }) => {
      return [id, name, published, named, serviceUsers];
    }),
    leases: leases.map(({ id, object, session, kind, role, place }) => {
      return [id, object.id, session.id, kind, role, place];
    }),
    sessions: [...model.sessions.values()].filter(({ recorded }) => recorded).map(({ id }) => [id]),
    memory: objects.flatMap(({ id, memory }) =>
      memory ? [[id, ...memory.map(({ file }) => file.number)]] : [],
    ),
  };
  for (const part of ["objects", "leases", "sessions", "memory"] as const) {
    assert.deepEqual(found[part].sort(byNumber), wanted[part].sort(byNumber), part);
  }
  assert.equal(core.connectionCount, model.connections.size);
  for (const id of model.connections.keys())
    assert.ok(core.hasConnection(id), `connection ${id} is known`);
  for (const object of objects) checkWords(object);
  checkSums(model);
  const replayed = replay(world.journal);
  assert.deepEqual(
    { ...replayed, lastId: 0 },
    { ...state, lastId: 0 },
    "a replay of the records gives the state",
  );
  if (sim.random.chance(0.2)) checkPrefix(sim);
  if (sim.random.chance(0.5)) world.journal = [...recordsOf(state)];
}

/** The user who pays for it now, whatever happened before. */
function payerOf({ owner, named, ownerLease, leases, payer }: ModelObject): number {
  if (named || ownerLease !== undefined) return owner.uid;
  const [first] = leases.values();
  return first?.session.peer.uid ?? payer;
}

/** Checks that the accounts match what is there. */
function checkSums(model: Model): void {
  const none = model.policy.limits.client;
  const hub = new Tally("hub", none);
  const users = new Map([...model.users.keys()].map((uid) => [uid, new Tally("user", none)]));
  const add = (uid: number, uses: Parameters<Tally["add"]>[0]) => {
    hub.add(uses);
    users.get(uid)?.add(uses);
  };
  for (const object of model.objects.values()) add(payerOf(object), object.uses);
  for (const { counted, peer } of model.connections.values())
    if (counted) add(peer.uid, { clients: 1 });
  for (const { peer, leases, waits, tally } of model.sessions.values()) {
    const own = new Tally("client", none);
    const uses = { leases: leases.size, waitingOpens: waits.size };
    own.add(uses);
    add(peer.uid, uses);
    for (const { kind, object } of leases.values()) if (kind === "owner") own.add(object.uses);
    assert.deepEqual(tally.used, own.used);
  }
  assert.deepEqual(model.hub.used, hub.used);
  for (const [uid, tally] of users) assert.deepEqual(model.users.get(uid)?.used, tally.used);
}

/**
 * Checks a hub that starts with any prefix of the records. It must keep no object without a holder,
 * and nothing after all processes have ended.
 */
function checkPrefix(sim: Simulation): void {
  const { journal } = sim.world;
  const state = replay(journal.slice(0, sim.random.below(journal.length + 1)));
  const world = new World();
  const core = new HubCore<number>(sim.core.identity, sim.plan.policy, world, 0);
  const connections = [...state.sessions.values()].map((session, index) => {
    return { id: index + 1, peer: session, session };
  });
  core.inherit({ state, connections, memory: new Map() });
  const after = core.state();
  const held = new Set([...after.leases.values()].map(({ object }) => object));
  for (const object of after.objects.keys())
    assert.ok(held.has(object), `object ${object} has no holder`);
  for (const { id } of connections) core.processEnded(id);
  world.runSteps();
  assert.deepEqual([core.objectCount, core.connectionCount, world.open.size], [0, 0, 0]);
}

function byNumber(one: readonly unknown[], other: readonly unknown[]): number {
  return Number(one[0]) - Number(other[0]);
}
