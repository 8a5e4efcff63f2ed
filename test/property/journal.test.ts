/**
 * A journal is damaged at random, or rewritten while its hub goes on. `SEED=7` repeats a run. `npm
 * run test:all` makes it up to twice as long, `NIGHTLY=1` at least thirty times.
 */
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  type HubRecord,
  type HubState,
  recordsOf,
  replay,
} from "../../src/hub/restart/hub-records.js";
import { Journal } from "../../src/hub/restart/journal.js";
import { JournalLines } from "../../src/hub/restart/journal-lines.js";
import { JournalRewrite } from "../../src/hub/restart/journal-rewrite.js";
import { CoreRig, peerOf } from "../support/core-rig.js";
import { hostArray } from "../support/messages.js";
import { nightly, Random, seedOfRun, thorough } from "../support/random.js";
import { TestFolder } from "../support/test-folder.js";

const BOOT = "boot";
const CORRUPTIONS = nightly ? 10_000 : thorough ? 200 : 100;
const REWRITES = nightly ? 300 : thorough ? 15 : 10;

interface Client {
  readonly id: number;
  readonly leases: number[];
}

/** Clients of a hub's core that share, open, release and die at random. */
class Clients {
  readonly rig = new CoreRig();
  readonly #random: Random;
  #last = 0;
  readonly #alive: Client[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  step(): void {
    const { rig } = this;
    const client = this.#alive.length > 0 ? this.#random.pick(this.#alive) : undefined;
    this.#last += 1;
    const name = `frame-${this.#random.below(40)}`;
    if (client === undefined || this.#random.chance(0.05)) {
      this.#come();
      return;
    }
    const deed = this.#random.below(7);
    if (deed < 2) this.#create(client, name);
    else if (deed < 4) this.#open(client, name);
    else if (deed < 6) this.#release(client);
    else if (this.#random.chance(0.3)) this.#die(client);
    else rig.ask(client.id, "remove", { name });
  }

  #come(): void {
    this.rig.greeted(this.#last, "test", peerOf(1000 + this.#last));
    this.#alive.push({ id: this.#last, leases: [] });
  }

  #create(client: Client, name: string): void {
    const lifetime = this.#random.chance(0.3) ? "pinned" : "held";
    const fields = {
      name,
      lifetime,
      sharing: { with: "private", access: "read" },
      descriptor: hostArray,
    } as const;
    const { reply } = this.rig.ask(client.id, "create", fields, [this.rig.fd()]);
    if (!reply.ok) return;
    const { object, lease } = reply.result as { object: number; lease: number };
    client.leases.push(lease);
    if (this.#random.chance(0.8)) this.rig.ask(client.id, "publish", { object });
  }

  #open(client: Client, name: string): void {
    const { reply } = this.rig.ask(client.id, "open", { name, access: "read", wait: false });
    if (reply.ok) client.leases.push((reply.result as { lease: number }).lease);
  }

  #release(client: Client): void {
    const lease = client.leases.splice(this.#random.below(client.leases.length + 1), 1)[0];
    if (lease !== undefined) this.rig.send(client.id, "release", { lease });
  }

  #die(client: Client): void {
    this.rig.core.processEnded(client.id);
    this.#alive.splice(this.#alive.indexOf(client), 1);
  }
}

const damages: readonly ((bytes: Buffer, random: Random) => Buffer)[] = [
  function flipBit(bytes, random) {
    const at = random.below(bytes.byteLength);
    bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << random.below(8)), at);
    return bytes;
  },
  function otherDigit(bytes, random) {
    const digits = [...bytes.keys()].filter(
      (at) => bytes.readUInt8(at) >= 0x30 && bytes.readUInt8(at) <= 0x39,
    );
    bytes.writeUInt8(0x30 + random.below(10), random.pick(digits));
    return bytes;
  },
  function cut(bytes, random) {
    const [from, to] = range(bytes, random);
    return Buffer.concat([bytes.subarray(0, from), bytes.subarray(to)]);
  },
  function insert(bytes, random) {
    const at = random.below(bytes.byteLength);
    const junk = Buffer.from(Array.from({ length: 1 + random.below(50) }, () => random.below(256)));
    return Buffer.concat([bytes.subarray(0, at), junk, bytes.subarray(at)]);
  },
  function copyElsewhere(bytes, random) {
    const [from, to] = range(bytes, random);
    const at = random.below(bytes.byteLength);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(from, to), bytes.subarray(at)]);
  },
  function copyLine(bytes, random) {
    const lines = bytes.toString("latin1").split("\n");
    lines.splice(random.below(lines.length), 0, random.pick(lines));
    return Buffer.from(lines.join("\n"), "latin1");
  },
  function moveLines(bytes, random) {
    const lines = bytes.toString("latin1").split("\n");
    lines.splice(random.below(lines.length), 0, ...lines.splice(random.below(lines.length), 20));
    return Buffer.from(lines.join("\n"), "latin1");
  },
  function truncate(bytes, random) {
    return bytes.subarray(0, random.below(bytes.byteLength));
  },
  function zeros(bytes, random) {
    const [from, to] = range(bytes, random);
    return bytes.fill(0, from, to);
  },
];

function range(bytes: Buffer, random: Random): [from: number, to: number] {
  const from = random.below(bytes.byteLength);
  return [from, Math.min(bytes.byteLength, from + 1 + random.below(300))];
}

/**
 * Checks that everything in the state comes from a true record, that names are unique, and that
 * each lease has an object and a session.
 */
function assertTrue(state: HubState, truth: readonly HubRecord[], what: string): void {
  const said = new Set(truth.map((record) => JSON.stringify(record)));
  const says = (record: HubRecord) =>
    assert.ok(said.has(JSON.stringify(record)), `${what}: ${JSON.stringify(record)}`);
  const names = new Set<string>();
  for (const session of state.sessions.values()) says(session);
  for (const { record, published, named } of state.objects.values()) {
    says(record);
    if (published) says({ t: "published", object: record.id });
    if (named) assert.ok(!names.has(record.name), `${what}: two objects are named ${record.name}`);
    if (named) names.add(record.name);
    const isTaken = truth.some(
      (it) => it.t === "object" && it.id > record.id && it.name === record.name,
    );
    if (!named && !isTaken) says({ t: "unnamed", object: record.id });
  }
  for (const lease of state.leases.values()) {
    says(lease);
    assert.ok(
      state.objects.has(lease.object) && state.sessions.has(lease.session),
      `${what}: a lease without an object`,
    );
  }
}

describe("a journal", () => {
  const seed = seedOfRun();

  it(`that is damaged at random yields only what a hub wrote (SEED=${seed})`, () => {
    using folder = new TestFolder();
    const random = new Random(seed);
    const path = folder.file("journal");
    const clients = new Clients(random);
    for (let step = 0; step < 400; step += 1) clients.step();
    const truth = clients.rig.records;
    const early = truth.slice(0, truth.length / 2);
    const { journal } = Journal.open(path, BOOT, () => {});
    const waiting: (() => void)[] = [];
    journal.keepShort(
      () => recordsOf(replay(early)),
      (work) => waiting.push(work),
    );
    journal.rewrite();
    for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) work();
    for (const record of truth.slice(early.length)) journal.append([record]);
    journal.close();
    const whole = readFileSync(path);
    const ended = new Set(truth.flatMap((record) => ("lease" in record ? [record.lease] : [])));
    for (let round = 0; round < CORRUPTIONS; round += 1) {
      const damage = random.pick(damages);
      writeFileSync(path, damage(Buffer.from(whole), random));
      const { journal, state } = Journal.open(path, BOOT, () => {});
      journal.close();
      assertTrue(state, truth, `${damage.name}, round ${round}`);
      if (damage.name === "copyLine")
        assert.ok(
          [...state.leases.keys()].every((lease) => !ended.has(lease)),
          `round ${round}: a lease came back`,
        );
    }
    rmSync(path);
  });

  it(`that is rewritten in slices agrees with its changing hub (SEED=${seed})`, () => {
    using folder = new TestFolder();
    const random = new Random(seed);
    const path = folder.file("journal");
    const lines = new JournalLines(BOOT);
    for (let round = 0; round < REWRITES; round += 1) {
      const clients = new Clients(random);
      const { rig } = clients;
      for (let step = random.below(1500); step >= 0; step -= 1) clients.step();
      const rewrite = JournalRewrite.begin(path, lines, rig.core.records());
      let told = rig.records.length;
      do {
        for (let step = random.below(60); step >= 0; step -= 1) clients.step();
        rewrite.add(rig.records.slice(told).map((record) => JSON.stringify(record)));
        told = rig.records.length;
      } while (!rewrite.step(0));
      rewrite.finish([]).file.close();
      const { journal, state } = Journal.open(path, BOOT, () => {});
      journal.close();
      const truth = replay(recordsOf(rig.core.state()));
      assert.deepEqual({ ...state, lastId: 0 }, { ...truth, lastId: 0 }, `round ${round}`);
      assert.ok(state.lastId <= truth.lastId);
    }
  });
});
