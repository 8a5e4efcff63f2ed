/** Ends a hub by a crash, a restart or a stop, and starts the next one from what is left. */

import assert from "node:assert/strict";
import type { ConnectionId } from "../../../src/hub/core/ports.js";
import type { ObjectMemory } from "../../../src/hub/objects/shared-object.js";
import {
  type HubState,
  recordsOf,
  replay,
  type StoredRecord,
} from "../../../src/hub/restart/hub-records.js";
import type { EarlierConnection } from "../../../src/hub/restart/inheritance.js";
import type { Packet } from "./client.js";
import { checkEvent } from "./event-check.js";
import { inheritedModel } from "./inherited-model.js";
import { Model } from "./model.js";
import type { Simulation } from "./simulation.js";
import type { File, Held } from "./world.js";

/** The state before an event in which the hub may die. */
export interface Snapshot {
  /** By lease, the session that holds it. */
  readonly leases: ReadonlyMap<number, number>;
  /** By object, whether it was published. */
  readonly objects: ReadonlyMap<number, boolean>;
}

/** The event in which the hub died. Without fields, it died between two events. */
export interface Death {
  readonly before?: Snapshot | undefined;
  readonly packet?: Packet;
  readonly lost?: ConnectionId | undefined;
}

const ENDS: ReadonlySet<string> = new Set(["release", "remove", "bye", "restored"]);

export function snapshotOf(model: Model): Snapshot {
  const leases = new Map<number, number>();
  for (const { id, leases: held } of model.sessions.values())
    for (const lease of held.keys()) leases.set(lease, id);
  return {
    leases,
    objects: new Map([...model.objects.values()].map(({ id, published }) => [id, published])),
  };
}

/**
 * Kills the hub, sometimes with its keeper. The next hub gets its journal and the keeper's
 * descriptors.
 */
export function crash(sim: Simulation, death: Death = {}): void {
  const { world, judge, random, population } = sim;
  count(sim, death.before === undefined ? "crash" : "crash within an event");
  const state = replay(random.chance(0.1) ? world.journal.map(writtenDown) : world.journal);
  if (death.before !== undefined) checkKept(sim, death.before, death, state);
  for (const sent of world.replies)
    if (world.dead && random.chance(0.5)) sim.readers.get(sent.connection)?.receive(sent);
  judge.lastId = Math.max(judge.lastId, state.lastId) + 1000;
  const files = filesOf(sim.model, death.packet);
  const keeperLives = world.hasKeeper && random.chance(0.8);
  if (world.hasKeeper && !keeperLives) count(sim, "keeper dies with its hub");
  const kept = new Map(
    [...world.store].filter(([id]) => keeperLives && world.kept.has(id) && state.objects.has(id)),
  );
  cutAll(sim);
  sim.core = sim.newCore(judge.lastId);
  world.journal = [...recordsOf(state)];
  const connections = [...state.sessions.values()].map((session): EarlierConnection => {
    const { pid, pidNamespace, pidfdInode, startTicks, uid, gid, groups } = session;
    sim.lastConnection += 1;
    const peer = { pid, pidNamespace, pidfdInode, startTicks, uid, gid, groups };
    return { id: sim.lastConnection, peer, session };
  });
  const memory = new Map(
    [...kept].map(([id, held]) => [
      id,
      memoryOf(sim, held, state.objects.get(id)?.record.descriptor.mechanism),
    ]),
  );
  if (random.chance(0.2))
    memory.set(1, memoryOf(sim, [{ file: world.file(), writable: true }], "memfd"));
  sim.model = inheritedModel(sim.plan.policy, { state, connections, kept, files });
  sim.core.inherit({ state, connections, memory });
  checkLost(sim, state, kept);
  sim.model.settle();
  checkEvent(sim);
  for (const { id, peer } of connections) {
    const process = population.find(peer);
    if (process === undefined) sim.pending.push({ what: "processEnded", connection: id });
    else process.connections.add(id);
  }
}

/** Checks that the hub names each pinned object that neither the keeper nor a process has. */
function checkLost(
  { world }: Simulation,
  state: HubState,
  kept: ReadonlyMap<number, unknown>,
): void {
  const held = new Set([...state.leases.values()].map(({ object }) => object));
  for (const { record, published, named } of state.objects.values()) {
    const { id, name, lifetime, descriptor } = record;
    const isPlain = ["array", "bundle"].includes(descriptor.content.kind);
    if (!isPlain || lifetime !== "pinned" || !published || !named) continue;
    const isLost = !kept.has(id) && !held.has(id);
    const isNamed = world.lost.some((words) => words.startsWith(`"${name}": `));
    assert.equal(isNamed, isLost, `"${name}" is ${isLost ? "" : "not "}lost`);
  }
}

/** Stops the hub: names and leases are gone, and its clients know it. */
export function stopped(sim: Simulation): void {
  count(sim, "stop");
  sim.core.close();
  assert.equal(sim.world.open.size, 0, "a stopped hub has no descriptors");
  cutAll(sim);
  sim.world.journal = [];
  sim.judge.lastId += 1000;
  sim.model = new Model(sim.plan.policy);
  sim.core = sim.newCore(sim.judge.lastId);
  for (const { clients } of sim.population.all()) for (const client of clients) client.forgetAll();
}

function cutAll(sim: Simulation): void {
  const { world } = sim;
  for (const client of sim.readers.values()) client.cutOff();
  sim.readers.clear();
  sim.pending.length = 0;
  for (const { connections } of sim.population.all()) connections.clear();
  world.rebirth();
  world.store.clear();
  world.kept.clear();
  world.hasKeeper = sim.plan.keepsFds;
  world.keeperIsBusy = false;
  world.beginEvent();
  sim.judge.beginEvent();
}

/**
 * Checks that every reply before the death still holds, and that only the event's subject has
 * changed.
 */
function checkKept(
  sim: Simulation,
  before: Snapshot,
  { packet, lost }: Death,
  state: HubState,
): void {
  for (const { reply } of sim.world.replies) {
    if (!reply.ok) continue;
    const { lease } = reply.result as { lease?: number };
    assert.ok(
      lease === undefined || state.leases.has(lease),
      `lease ${lease} was granted and not recorded`,
    );
    const { message } = packet ?? {};
    if (message?.op === "publish" && reply.id === message.id)
      assert.ok(state.objects.get(message.object)?.published);
    if (message?.op === "release" && reply.id === message.id)
      assert.ok(!state.leases.has(message.lease));
  }
  if (lost === undefined && packet !== undefined && !ENDS.has(packet.message.op)) {
    for (const lease of before.leases.keys())
      assert.ok(state.leases.has(lease), `lease ${lease} is lost`);
    for (const [object, published] of before.objects)
      assert.ok(
        (state.objects.get(object)?.published ?? !published) || !published,
        `object ${object} is lost`,
      );
    return;
  }
  for (const lease of state.leases.keys())
    assert.ok(before.leases.has(lease), `lease ${lease} did not exist before`);
  for (const object of state.objects.keys())
    assert.ok(before.objects.has(object), `object ${object} did not exist before`);
  const ended = [...before.leases].filter(([lease]) => !state.leases.has(lease));
  assert.ok(
    new Set(ended.map(([, session]) => session)).size <= 1,
    "only the leases of one session end",
  );
}

function filesOf(model: Model, packet: Packet | undefined): (object: number) => readonly File[] {
  const created = packet?.held.map(({ file }) => file) ?? [];
  return (object) => model.objects.get(object)?.files ?? created;
}

function memoryOf(
  { world }: Simulation,
  held: readonly Held[],
  mechanism: string | undefined,
): ObjectMemory<number> {
  const fds = held.map((one) => world.receive(one)) as [number, ...number[]];
  return {
    fds,
    writable: (mechanism === "memfd" || mechanism === "legacy") && held[0]?.writable === true,
  };
}

function writtenDown(record: StoredRecord): StoredRecord {
  return JSON.parse(JSON.stringify(record)) as StoredRecord;
}

function count(sim: Simulation, what: string): void {
  const { counts, trace } = sim;
  sim.steps += 1;
  counts[what] = (counts[what] ?? 0) + 1;
  trace.push([sim.steps, what]);
}
