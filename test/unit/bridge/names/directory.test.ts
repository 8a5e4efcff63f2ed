import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { Directory } from "../../../../src/bridge/names/directory.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { hostArray } from "../../../support/messages.js";

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const machine = {
  v: MACHINES_VERSION,
  machine: "one",
  instance: "01234567-89ab-4def-8123-456789abcdef",
  place: "here",
  ucx: "1.22.0",
  ready: true,
};
const name = {
  v: MACHINES_VERSION,
  name: "a.b:c",
  machine: "one",
  object: 5,
  sharedWith: "private",
  createdAtMs: 1,
  descriptor: hostArray,
};
const KEY = "name.a=2eb=3ac";

function filled() {
  const log: string[] = [];
  const directory = new Directory("two", (line) => log.push(line));
  directory.onRestart();
  directory.onEntry({ key: "machine.one", revision: 1, value: bytes(machine) });
  directory.onEntry({ key: KEY, revision: 2, value: bytes(name) });
  directory.onCurrent();
  return { directory, log };
}

describe("Directory", () => {
  it("finds a name whose machine is there and ready", () => {
    const { directory } = filled();
    assert.equal(directory.find("a.b:c")?.object, 5);
    const unready = bytes({ ...machine, ready: false });
    directory.onEntry({ key: "machine.one", revision: 3, value: unready });
    assert.equal(directory.find("a.b:c"), undefined);
    assert.equal(directory.entry("a.b:c")?.revision, 2);
  });

  it("forgets what was removed, by the key alone", () => {
    const { directory } = filled();
    directory.onEntry({ key: KEY, revision: 3, value: undefined });
    assert.equal(directory.entry("a.b:c"), undefined);
    directory.onEntry({ key: "machine.one", revision: 4, value: undefined });
    assert.deepEqual(directory.machines(), []);
  });

  it("answers from before a restart until it has everything again", () => {
    const { directory } = filled();
    directory.onRestart();
    assert.equal(directory.isCurrent, false);
    assert.equal(directory.find("a.b:c")?.object, 5);
    directory.onCurrent();
    assert.equal(directory.isCurrent, true);
    assert.equal(directory.find("a.b:c"), undefined);
  });

  it("leaves out records that make no sense, and says so once", () => {
    const contradiction = { ...hostArray, byteLength: 10_000 };
    const odd: readonly [string, unknown][] = [
      [KEY, 5],
      [KEY, { ...name, v: MACHINES_VERSION + 1 }],
      [KEY, { ...name, v: "1" }],
      [KEY, { ...name, name: "other" }],
      [KEY, { ...name, object: -1 }],
      [KEY, { ...name, more: 1 }],
      [KEY, { ...name, descriptor: contradiction }],
      [KEY, { ...name, descriptor: { ...hostArray, device: { kind: "cuda", uuid: "x" } } }],
      ["machine.one", { ...machine, machine: "other" }],
      ["machine.one", { ...machine, instance: "x" }],
    ];
    for (const [key, value] of odd) {
      const { directory, log } = filled();
      directory.onEntry({ key, revision: 3, value: bytes(value) });
      directory.onEntry({ key, revision: 4, value: bytes(value) });
      assert.equal(directory.find("a.b:c"), undefined, JSON.stringify(value));
      assert.equal(log.length, 1, JSON.stringify(value));
    }
    const { directory, log } = filled();
    directory.onEntry({ key: KEY, revision: 3, value: Uint8Array.of(0xff, 0xfe) });
    assert.match(log[0] ?? "", /Cannot read name\.a=2eb=3ac in NATS/);
  });

  it("counts bad records instead of filling the log", (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { directory, log } = filled();
    for (let at = 0; at < 5000; at += 1)
      directory.onEntry({ key: `name.bad${at}`, revision: 3 + at, value: bytes(5) });
    assert.equal(log.length, 5);
    t.mock.timers.tick(10_000);
    assert.match(log[5] ?? "", /^4995 more like this, the last of them: .*name\.bad4999/);
  });

  it("leaves out what is beyond a limit, and says so", () => {
    const { directory, log } = filled();
    for (let at = 1; at <= limits.knownMachinesMax; at += 1) {
      const value = bytes({ ...machine, machine: `m${at}` });
      directory.onEntry({ key: `machine.m${at}`, revision: 3 + at, value });
    }
    assert.equal(directory.machines().length, limits.knownMachinesMax);
    assert.deepEqual(log, [
      'Cannot keep machine "m1024": 1024 are known, the limit (knownMachinesMax)',
    ]);
  });

  it("ignores keys of others", () => {
    const { directory, log } = filled();
    directory.onEntry({ key: "something", revision: 3, value: Uint8Array.of(1) });
    directory.onEntry({ key: "other.key", revision: 4, value: undefined });
    assert.deepEqual(log, []);
    assert.equal(directory.entries().length, 1);
  });
});
