/**
 * One run of a hub's core with many clients. Each step is one event, chosen by the seed. After it
 * the core must have done exactly what the model says.
 */
import assert from "node:assert/strict";
import { HubCore } from "../../../src/hub/core/hub-core.js";
import type { ConnectionId } from "../../../src/hub/core/ports.js";
import { encodeMessage } from "../../../src/wire/codec.js";
import { Random } from "../random.js";
import type { Client, Packet, SimulatedProcess } from "./client.js";
import { compare } from "./compare.js";
import { checkEvent, codeOf, type Happening, IDENTITY } from "./event-check.js";
import { damaged, garbage } from "./garbage.js";
import { Judge } from "./judge.js";
import { Model } from "./model.js";
import { type Plan, planOf } from "./plan.js";
import { Population } from "./population.js";
import { nextPacket, type Surroundings } from "./requests.js";
import { crash, type Snapshot, snapshotOf, stopped } from "./restarts.js";
import { request } from "./rules.js";
import { World } from "./world.js";

export class Simulation {
  readonly random: Random;
  readonly plan: Plan;
  readonly world = new World();
  readonly judge: Judge;
  readonly population: Population;
  readonly pending: Happening[] = [];
  /** The client that reads each connection. */
  readonly readers = new Map<ConnectionId, Client>();
  readonly counts: Record<string, number> = {};
  readonly answers: Record<string, number> = {};
  readonly trace: unknown[] = [];
  model: Model;
  core: HubCore<number>;
  /** The number of events that the core got. */
  steps = 0;
  lastConnection = 0;
  readonly #around: Surroundings;
  #turns = 0;
  /** The client that asked for changes last. */
  #follower: Client | undefined;

  constructor(seed: number, processes?: number) {
    this.random = new Random(seed);
    this.plan = planOf(this.random, processes);
    this.judge = new Judge(this.world);
    this.model = new Model(this.plan.policy);
    this.world.hasKeeper = this.plan.keepsFds;
    this.core = this.newCore(0);
    this.population = new Population(this.random, this.plan);
    const names = Array.from({ length: this.plan.names }, (_, index) => nameOf(index));
    const foreignSession = (process: SimulatedProcess) => this.population.sessionOfAnother(process);
    this.#around = { random: this.random, world: this.world, names, foreignSession };
  }

  newCore(lastId: number): HubCore<number> {
    return new HubCore<number>(IDENTITY, this.plan.policy, this.world, lastId);
  }

  /** Lets somebody act, which is at most one event for the core. */
  turn() {
    const { random, plan, pending, population } = this;
    this.#turns += 1;
    this.world.clock += random.below(4);
    const process = population.any();
    const follower = this.#follower;
    this.#follower = undefined;
    if (random.chance(1 / plan.stepsPerCrash)) crash(this);
    else if (random.chance(0.02)) this.#keeperTakes();
    else if (this.world.hasKeeper && random.chance(0.002)) this.#keeperDies();
    else if (pending.length > 0 && random.chance(pending.length > 20 ? 0.8 : 0.2)) this.#happen();
    // WHY at once: otherwise something has changed before it asks again.
    else if (follower?.isUpToDate === true) this.#act(follower);
    else if (process === undefined || (population.size < plan.processes && random.chance(0.3)))
      population.spawn();
    else if (random.chance(1 / Math.max(1, plan.stepsPerLife / population.size)))
      this.kill(process);
    else this.#act(random.pick(process.clients));
    if (this.#turns % plan.stepsPerComparison === 0) compare(this);
  }

  /** Ends all processes. Then only pinned objects are left. */
  finish() {
    for (;;) {
      const process = this.population.any();
      if (process === undefined) break;
      this.kill(process);
    }
    while (this.pending.length > 0) this.#happen();
    compare(this);
    const pinned = [...this.model.objects.values()];
    assert.ok(
      pinned.every(
        ({ pinned, published, named, leases }) => pinned && published && named && leases.size === 0,
      ),
    );
    assert.deepEqual([this.core.connectionCount, this.core.objectCount], [0, pinned.length]);
    this.core.close();
    assert.equal(this.world.open.size, 0, "no descriptor is open at the end");
  }

  kill(process: SimulatedProcess) {
    this.#note("process ends", process.peer.pid);
    this.population.kill(process);
    for (const client of process.clients)
      if (client.connection !== undefined) this.#stopReading(client);
    for (const connection of process.connections) {
      if (this.model.connections.has(connection))
        this.pending.push({ what: "processEnded", connection });
    }
  }

  /** Closes the other end of this client's socket. The core learns of it later. */
  cut(client: Client) {
    const connection = this.#stopReading(client);
    if (connection !== undefined) this.pending.push({ what: "hungUp", connection });
  }

  /**
   * Kills the keeper. Until the next one, the hub answers publications at once. Publications that
   * waited for the dead keeper wait for the next.
   */
  #keeperDies() {
    this.#begin("keeper dies", 0);
    this.world.hasKeeper = false;
    this.world.kept.clear();
    checkEvent(this);
  }

  /**
   * Makes the keeper busy, or lets it take all that waits for it, which answers publications. A new
   * keeper, busy or not, replaces a dead one.
   */
  #keeperTakes() {
    const { world, model, judge, core } = this;
    world.hasKeeper = this.plan.keepsFds;
    world.keeperIsBusy = !world.keeperIsBusy;
    if (world.keeperIsBusy) return;
    for (const object of world.store.keys()) world.kept.add(object);
    const waiting = model.publishes.splice(0);
    for (const object of new Set(waiting.map((publish) => publish.object))) {
      this.#begin("kept", object);
      core.kept(object);
      for (const { connection, request } of waiting.filter(
        (publish) => publish.object === object,
      )) {
        if (model.connections.get(connection)?.attached) judge.ok(connection, request);
      }
      checkEvent(this);
      this.#deliver();
    }
  }

  #act(client: Client) {
    const { random, world } = this;
    if (client.connection === undefined) {
      if (random.chance(0.3)) this.#connect(client);
      return;
    }
    if (random.chance(client.deaf ? 0.2 : 0.004)) {
      this.#note("cut", client.connection);
      return this.cut(client);
    }
    if (random.chance(0.004)) client.deaf = true;
    // WHY no packet: the hub would not read it.
    if (client.pausedUntilMs > world.clock) return void this.#note("paused", client.connection);
    if (random.chance(0.004)) return this.#spoil(client);
    this.#send(client, nextPacket(client, this.#around));
  }

  #connect(client: Client) {
    const { peer } = client.process;
    this.lastConnection += 1;
    const id = this.lastConnection;
    this.#begin("connect", id);
    const { policy } = this.plan;
    const isServed =
      peer.uid === policy.uid ||
      (policy.users as ReadonlySet<number>).has(peer.uid) ||
      peer.groups.includes(77);
    const refusal = this.model.refusal(undefined, peer.uid, { clients: 1 });
    const isRefused = refusal !== undefined && !this.model.mayComeBack(peer);
    const wanted = !isServed ? "UNTRUSTED_PEER" : isRefused ? "LIMIT_EXCEEDED" : undefined;
    const found = codeOf(() => this.core.connected(id, peer));
    assert.equal(found, wanted, "connect");
    if (wanted === undefined) {
      this.model.connect(id, peer, refusal === undefined);
      this.readers.set(id, client);
      client.connection = id;
      client.phase = "connected";
      client.process.connections.add(id);
    }
    checkEvent(this);
  }

  #send(client: Client, packet: Packet) {
    const id = client.connection as ConnectionId;
    const connection = this.model.connections.get(id);
    assert.ok(connection !== undefined);
    client.sent.set(packet.message.id, packet);
    this.#begin(packet.message.op, id, packet.message);
    const before = this.#mayDie();
    const fds = packet.held.map((held) => this.world.receive(held));
    const { diskFull, fdTableFull, hasKeeper, clock } = this.world;
    // WHY before the packet: what counts is whether the keeper had the memory when the publication
    // was asked for.
    const kept = new Set(this.world.kept);
    const isKept = (object: number) => !hasKeeper || kept.has(object);
    this.#run(() => this.core.packet(id, encodeMessage(packet.message), fds));
    if (this.world.dead) return crash(this, { before, packet });
    request(
      {
        model: this.model,
        judge: this.judge,
        nowMs: clock,
        diskFull,
        fdTableFull,
        hasKeeper,
        isKept,
      },
      connection,
      packet.message,
      packet.held,
    );
    checkEvent(this);
    if (packet.message.op === "changes") this.#follows(client, packet.message.id);
    if (packet.message.op === "disconnect") this.#markDisconnected(packet.message.session);
    this.#deliver();
    const { stops, restarts } = this.world;
    if (stops > 0) stopped(this);
    else if (restarts > 0) crash(this);
  }

  /** The client may ask for changes again, also while it still waits for an answer. */
  #follows(client: Client, request: number) {
    this.#follower = client;
    if (client.sent.has(request)) client.isUpToDate = this.random.chance(0.3);
  }

  /** WHY here: a client whose connection was cut is not told. */
  #markDisconnected(session: number) {
    if (this.model.sessions.get(session)?.disconnected !== true) return;
    for (const { clients } of this.population.all())
      for (const client of clients) if (client.session === session) client.disconnected = true;
  }

  #spoil(client: Client) {
    const id = client.connection as ConnectionId;
    const spoiled = this.random.chance(0.7) ? garbage(this.random) : damaged(this.random);
    this.#begin("spoiled packet", id, spoiled);
    if (spoiled.damage === undefined) {
      const fds = [1, 2].map(() => this.world.receive({ file: this.world.file(), writable: true }));
      this.core.packet(id, spoiled.bytes, fds);
      this.world.runSteps();
    } else this.core.damagedPacket(id, spoiled.bytes, spoiled.damage);
    this.judge.fails(id, spoiled.id, spoiled.code);
    if (spoiled.hangsUp) this.judge.hangUps.push(id);
    checkEvent(this);
    this.#deliver();
  }

  #happen() {
    const [happening] = this.pending.splice(this.random.below(this.pending.length), 1);
    const { what, connection } = happening as Happening;
    this.#begin(what, connection);
    const before = this.#mayDie();
    this.#run(() => this.core[what](connection));
    if (this.world.dead)
      return crash(this, { before, lost: what === "processEnded" ? connection : undefined });
    if (what === "hungUp") this.model.hungUp(connection);
    else this.model.ended(connection);
    checkEvent(this);
  }

  /** Delivers the results of an event to the clients and the server. */
  #deliver() {
    const { world, readers } = this;
    for (const sent of world.replies) {
      const { reply } = sent;
      const outcome = reply.ok ? "ok" : reply.error.code;
      this.answers[outcome] = (this.answers[outcome] ?? 0) + 1;
      readers.get(sent.connection)?.receive(sent);
    }
    for (const { connection, milliseconds } of world.paused) {
      const client = readers.get(connection);
      if (client !== undefined) client.pausedUntilMs = world.clock + milliseconds;
    }
    for (const connection of world.forgotten) {
      const client = readers.get(connection);
      if (client !== undefined) this.#stopReading(client);
    }
    for (const connection of world.hungUp) {
      const client = readers.get(connection);
      if (client !== undefined) this.cut(client);
    }
  }

  #stopReading(client: Client): ConnectionId | undefined {
    const { connection } = client;
    client.cutOff();
    if (connection !== undefined) this.readers.delete(connection);
    return connection;
  }

  /** Runs an event. The core must not throw. */
  #run(event: () => void) {
    try {
      event();
      this.world.runSteps();
    } catch (error) {
      if (!this.world.dead) throw error;
    }
  }

  #begin(kind: string, connection: ConnectionId, detail?: unknown) {
    this.#note(kind, connection, detail);
    this.steps += 1;
    this.world.beginEvent();
    this.judge.beginEvent();
    this.model.toBeEnded.length = 0;
    if (this.random.chance(0.01)) this.world.diskFull = true;
    if (this.random.chance(0.01)) this.world.fdTableFull = true;
  }

  /** Sometimes makes the hub die at one of the records of this event. */
  #mayDie(): Snapshot | undefined {
    if (!this.random.chance(2 / this.plan.stepsPerCrash)) return undefined;
    this.world.recordsToLive = this.random.below(4);
    return snapshotOf(this.model);
  }

  #note(kind: string, subject: number, detail?: unknown) {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    this.trace.push([this.steps, kind, subject, detail]);
    if (this.trace.length > 60) this.trace.splice(0, 30);
  }
}

/** Some are of two services: offers, and the requests of their links. */
function nameOf(index: number): string {
  if (index % 4 > 1) return `name-${index}`;
  const offer = `service-${index % 16 > 7 ? 1 : 2}:w${index - (index % 4)}:0`;
  return index % 4 === 0 ? offer : `${offer}:req`;
}
