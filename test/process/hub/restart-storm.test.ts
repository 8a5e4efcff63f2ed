/**
 * Hubs that are killed repeatedly while clients work, and many clients that look for the next hub
 * at once.
 */
import assert from "node:assert/strict";
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import type { SharedArray } from "../../../src/client/objects/shared-array.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hubAt } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const JOINS_MANY = new URL("./actors/joins-many.js", import.meta.url);
const STARTS = { start: true, hubIdleMs: 60_000 };
const KILLS = 20;
const CLIENTS = 4;
const HELD_MAX = 12;

async function killHub(socketPath: string): Promise<void> {
  let pid: number | undefined;
  await until("a hub listens", () => {
    pid = hubAt(socketPath);
    return pid !== undefined;
  });
  // WHY random: the hub must die at any point of the clients' work.
  await new Promise((resolve) => setTimeout(resolve, 40 * Math.random()));
  // WHY with its keeper: a keeper would start the next hub, and pause longer each time.
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter(Boolean);
  process.kill(pid as number, "SIGKILL");
  for (const child of children) killUnlessGone(Number(child));
  await until("it is gone", () => hubAt(socketPath) !== pid);
}

/** A child of a hub that is killed may end by itself before. */
function killUnlessGone(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "ESRCH");
  }
}

/**
 * A client that creates, publishes, opens and closes at random. Each array holds its own number,
 * which is also its name.
 */
class Worker {
  readonly held: SharedArray[] = [];
  readonly #hub: Hub;
  readonly #names: string[];
  readonly #digit: number;
  #created = 0;

  constructor(hub: Hub, names: string[], digit: number) {
    this.#hub = hub;
    this.#names = names;
    this.#digit = digit;
  }

  async work(goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      const dice = Math.random();
      if (this.held.length >= HELD_MAX || (dice < 0.3 && this.held.length > 0)) this.#close();
      else if (dice < 0.7) await this.#create();
      else await this.#open();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #close(): void {
    const [array] = this.held.splice(Math.floor(this.held.length * Math.random()), 1);
    array?.close();
  }

  async #create(): Promise<void> {
    this.#created += 1;
    const number = CLIENTS * this.#created + this.#digit;
    const array = await this.#hub.create(`n${number}`, { dtype: "uint32", shape: [1] });
    this.held.push(array);
    await array.write([number]);
    if (Math.random() < 0.2) return;
    await array.publish();
    this.#names.push(`n${number}`);
  }

  async #open(): Promise<void> {
    const name = this.#names[Math.floor(this.#names.length * Math.random())];
    if (name === undefined) return;
    try {
      const array = await this.#hub.open(name, { wait: false });
      this.held.push(array);
      assert.equal((await array.read())[0], Number(name.slice(1)));
    } catch (error) {
      if (!hasCode(error, "NOT_FOUND")) throw error;
      // Its owner has closed it since.
      this.#names.splice(this.#names.indexOf(name), 1);
    }
  }
}

/** The number of descriptors of a hub with one client that holds nothing. */
async function fdsOfFreshHub(): Promise<number> {
  await using testHub = await TestHub.start();
  await using hub = await testHub.connect();
  const array = await hub.create("frame", { dtype: "uint8", shape: [1] });
  array.close();
  await hub.list();
  return testHub.fdCount();
}

describe(`a hub that is killed ${KILLS} times while clients work`, () => {
  checkLeaks();

  it("knows exactly what they hold in the end, and so does its keeper", async () => {
    await using testHub = await TestHub.start();
    await using observer = await testHub.connect(STARTS);
    const hubs = await Promise.all(Array.from({ length: CLIENTS }, () => testHub.connect(STARTS)));
    const names: string[] = [];
    const workers = hubs.map((hub, digit) => new Worker(hub, names, digit));
    let isOver = false;
    const working = Promise.all(workers.map((worker) => worker.work(() => !isOver)));
    for (let kill = 0; kill < KILLS; kill += 1) await killHub(testHub.socket);
    isOver = true;
    await working;

    const held = workers.flatMap((worker) => worker.held);
    const ids = [...new Set(held.map(({ object }) => object))].sort();
    await until(
      "all have come back",
      async () => (await observer.status()).clients === CLIENTS + 1,
    );
    await until(
      "the hub has all memory",
      async () => (await observer.status()).withoutMemory === 0,
    );
    const { leases, objects, detached, pid } = await observer.status();
    assert.deepEqual((await observer.list()).map(({ object }) => object).sort(), ids);
    assert.deepEqual([leases, objects, detached], [held.length, ids.length, 0]);
    for (const array of held) assert.equal((await array.read())[0], Number(array.name.slice(1)));

    for (const hub of hubs) await hub.close();
    await until("all is given back", async () => (await observer.status()).objects === 0);
    const fds = await fdsOfFreshHub();
    await until("its descriptors are closed", () => readdirSync(`/proc/${pid}/fd`).length <= fds);
  });
});

describe("many clients whose hub is killed", () => {
  checkLeaks();

  it("start one hub together, and all reconnect to it", async () => {
    await using testHub = await TestHub.start();
    const [counted, starter] = [testHub.folder.file("started"), testHub.folder.file("node.sh")];
    const node = process.execPath;
    writeFileSync(starter, `#!/bin/sh\necho $$ >> ${counted}\nexec ${node} "$@"\n`);
    chmodSync(starter, 0o700);
    const many = 10;
    await using actor = new Actor(JOINS_MANY, { args: [testHub.socket, String(many), starter] });
    const hubs = await Promise.all(Array.from({ length: many }, () => testHub.connect(STARTS)));
    assert.equal(await actor.says(), "joined");
    process.execPath = starter;
    try {
      const back = hubs.map(
        (hub) => new Promise<{ resumed: boolean }>((resolve) => hub.onReconnect(resolve)),
      );
      await testHub.killWithKeeper();
      await soon("all come back", Promise.all(back));
      assert.equal(await actor.says(), "came back");
    } finally {
      process.execPath = node;
    }
    const started = readFileSync(counted, "utf8").trim().split("\n").map(Number);
    const status = await hubs[0]?.status();
    assert.deepEqual([started, status?.clients], [[status?.pid], 2 * many]);
    for (const hub of hubs) await hub.close();
  });
});
