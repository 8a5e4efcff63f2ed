import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { defaults } from "../../../../src/base/limits.js";
import { Directory } from "../../../../src/bridge/names/directory.js";
import { GoneMachines } from "../../../../src/bridge/names/gone-machines.js";
import { machineKey, nameKey, serviceKey } from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { MemoryNames } from "../../../support/machines/memory-names.js";
import { hostArray } from "../../../support/messages.js";

const LONG_MS = defaults.goneMachineMs;

describe("what a machine that is gone has left in NATS", () => {
  let names: MemoryNames;
  let nowMs: number;

  beforeEach(() => {
    names = new MemoryNames();
    nowMs = 5;
    mock.method(performance, "now", () => nowMs);
  });
  afterEach(() => mock.restoreAll());

  const write = async (key: string, machine: string, fields: object = {}) => {
    const value = Buffer.from(JSON.stringify({ v: MACHINES_VERSION, machine, ...fields }));
    await names.connect().create(key, value);
  };
  const machineFields = {
    instance: "01234567-89ab-4def-8123-456789abcdef",
    ...{ place: "boot", ucx: "1.22.0", ready: true },
  };
  const nameFields = (name: string) => ({
    ...{ name, object: 1, sharedWith: "private", createdAtMs: 1, descriptor: hostArray },
  });
  const lives = (machine: string) => write(machineKey(machine), machine, machineFields);
  const has = (machine: string, name: string) => write(nameKey(name), machine, nameFields(name));

  async function bridge(own = "one") {
    const store = names.connect();
    const log: string[] = [];
    const directory = new Directory(own, (line) => log.push(line));
    await store.watch(directory);
    return { gone: new GoneMachines(own, store, directory, (line) => log.push(line)), log };
  }

  it("is removed after a while: names, services, and records of other versions", async () => {
    await lives("one");
    await has("one", "mine");
    await has("dead", "a");
    await has("dead", "b");
    await write(serviceKey("double", "dead"), "dead", { service: "double" });
    await write(nameKey("old"), "dead", { v: MACHINES_VERSION - 1 });
    const { gone, log } = await bridge();
    log.length = 0;
    assert.equal(await gone.tidy(), true);
    nowMs += LONG_MS - 1;
    assert.equal(await gone.tidy(), true);
    assert.equal(names.keys().length, 6);
    nowMs += 1;
    assert.equal(await gone.tidy(), true);
    assert.deepEqual(names.keys(), [machineKey("one"), nameKey("mine")]);
    assert.deepEqual(log, [
      `removed: 4 records of machine "dead", gone for ${defaults.goneMachineMs / 1000} s`,
    ]);
  });

  it("stays if the machine comes back, and then counts from its next end", async () => {
    await lives("one");
    await has("two", "a");
    const { gone } = await bridge();
    await gone.tidy();
    nowMs += LONG_MS;
    await lives("two");
    await gone.tidy();
    const store = names.connect();
    await store.remove(machineKey("two"), (await store.read(machineKey("two")))?.revision ?? 0);
    await gone.tidy();
    nowMs += LONG_MS - 1;
    await gone.tidy();
    assert.ok(names.keys().includes(nameKey("a")));
  });

  it("stays if the record of the machine makes no sense here, because its bridge may run", async () => {
    await lives("one");
    await write(machineKey("odd"), "odd", { ready: "perhaps" });
    await has("odd", "a");
    const { gone } = await bridge();
    await gone.tidy();
    nowMs += LONG_MS;
    assert.equal(await gone.tidy(), true);
    assert.ok(names.keys().includes(nameKey("a")));
  });

  it("is removed by one bridge: that of the machine whose name comes first", async () => {
    await lives("one");
    await lives("another");
    await has("dead", "a");
    const { gone } = await bridge("one");
    const { gone: first } = await bridge("another");
    await gone.tidy();
    await first.tidy();
    nowMs += LONG_MS;
    await gone.tidy();
    assert.ok(names.keys().includes(nameKey("a")));
    await first.tidy();
    assert.ok(!names.keys().includes(nameKey("a")));
  });

  it("is removed a part at a time", async () => {
    await lives("one");
    for (let count = 0; count < 1500; count += 1) await has("dead", `name-${count}`);
    const { gone } = await bridge();
    await gone.tidy();
    nowMs += LONG_MS;
    assert.equal(await gone.tidy(), false);
    assert.equal(names.keys().length, 501);
    assert.equal(await gone.tidy(), true);
    assert.equal(names.keys().length, 1);
  });

  it("is removed at the next call if it was written anew in between", async () => {
    await lives("one");
    await has("dead", "a");
    const store = names.connect();
    const log: string[] = [];
    const directory = new Directory("one", (line) => log.push(line));
    await store.watch(directory);
    const gone = new GoneMachines("one", store, directory, () => {});
    await gone.tidy();
    nowMs += LONG_MS;
    store.isCut = true;
    const other = names.connect();
    const found = await other.read(nameKey("a"));
    await other.update(nameKey("a"), found?.value ?? new Uint8Array(), found?.revision ?? 0);
    store.isCut = false;
    assert.equal(await gone.tidy(), false, "the directory has an earlier revision");
    store.watchAnew();
    assert.equal(await gone.tidy(), true);
    assert.deepEqual(names.keys(), [machineKey("one")]);
  });
});
