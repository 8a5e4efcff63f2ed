import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { defaults } from "../../../../src/base/limits.js";
import { Announcer } from "../../../../src/bridge/names/announcer.js";
import { Directory } from "../../../../src/bridge/names/directory.js";
import { Presence, type PresenceEvents } from "../../../../src/bridge/names/presence.js";
import { ServiceAnnouncer } from "../../../../src/bridge/names/service-announcer.js";
import type { MachineRecord, NameRecord } from "../../../../src/wire/machine-records.js";
import {
  encodeRecord,
  machineKey,
  nameKey,
  serviceKey,
} from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { MemoryNames } from "../../../support/machines/memory-names.js";
import { hostArray } from "../../../support/messages.js";

const nobody: PresenceEvents = { onRestored: () => {}, onLost: () => {} };
const endless = new Deadline("start", {}, Number.POSITIVE_INFINITY);

function recordOf(machine: string, name: string, object: number): NameRecord {
  const fields = { sharedWith: "private", createdAtMs: 1, descriptor: hostArray } as const;
  return { v: MACHINES_VERSION, name, machine, object, ...fields };
}

function wanted(machine: string, names: Readonly<Record<string, number>>) {
  return new Map(
    Object.entries(names).map(([name, object]) => [name, recordOf(machine, name, object)]),
  );
}

async function bridgeOf(names: MemoryNames, machine: string) {
  const store = names.connect();
  const log: string[] = [];
  const directory = new Directory("one", (line) => log.push(line));
  await store.watch(directory);
  const record: MachineRecord = {
    v: MACHINES_VERSION,
    machine,
    instance: "01234567-89ab-4def-8123-456789abcdef",
    place: `boot ${machine}`,
    ucx: "1.22.0",
    ready: false,
  };
  const claim = (events = nobody) =>
    Presence.claim(store, record, endless, (line) => log.push(line), events);
  const announcer = new Announcer(machine, store, directory, (line) => log.push(line));
  return { store, log, directory, announcer, claim };
}

describe("Announcer", () => {
  it("writes names, replaces them by later objects, and removes those that have ended", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const presence = await one.claim();
    assert.equal(await one.announcer.announce(wanted("one", { a: 1, b: 2 })), true);
    assert.equal(one.directory.find("a"), undefined, "not before all names are written");
    await presence.setReady(true);
    assert.equal(one.directory.find("a")?.object, 1);
    await one.announcer.announce(wanted("one", { a: 3 }));
    assert.equal(one.directory.find("a")?.object, 3);
    assert.equal(one.directory.entry("b"), undefined);
    await presence.close();
    assert.equal(one.directory.find("a"), undefined, "nobody can fetch it without its machine");
  });

  it("gives a name to the machine that was first, and tells the other", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const other = await bridgeOf(names, "other");
    const presences = [await one.claim(), await other.claim()];
    await one.announcer.announce(wanted("one", { weights: 1 }));
    assert.equal(await other.announcer.announce(wanted("other", { weights: 9 })), true);
    assert.deepEqual(other.announcer.refused, [{ name: "weights", machine: "one" }]);
    await other.announcer.announce(wanted("other", { weights: 9 }));
    const told = other.log.filter((line) => line.includes("not announced"));
    assert.deepEqual(told, ['not announced: "weights", because machine "one" announced it before']);
    assert.equal(one.directory.entry("weights")?.record.machine, "one");
    // When the first ends, the other gets the name.
    await one.announcer.announce(new Map());
    await other.announcer.announce(wanted("other", { weights: 9 }));
    assert.equal(one.directory.entry("weights")?.record.machine, "other");
    assert.deepEqual(other.announcer.refused, []);
    for (const presence of presences) await presence.close();
  });

  it("takes a name over from a machine that is gone, which is told when it is back", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const other = await bridgeOf(names, "other");
    const presences = [await one.claim(), await other.claim()];
    await one.announcer.announce(wanted("one", { weights: 1 }));
    one.store.cut(true);
    names.pass(defaults.machineTtlMs);
    await presences[1]?.close();
    presences[1] = await other.claim();
    await other.announcer.announce(wanted("other", { weights: 9 }));
    assert.equal(other.directory.entry("weights")?.record.machine, "other");
    one.store.cut(false);
    await one.announcer.announce(wanted("one", { weights: 1 }));
    assert.deepEqual(one.announcer.refused, [{ name: "weights", machine: "other" }]);
    for (const presence of presences) await presence?.close();
  });

  it("does not say that it lacks a name before it knows its names", async () => {
    const { announcer } = await bridgeOf(new MemoryNames(), "one");
    // The other machine asks again after this error, and gives up after NOT_FOUND.
    assert.throws(() => announcer.offered("weights"), { code: "PEER_GONE", message: /"one"/ });
    await announcer.announce(wanted("one", {}));
    assert.equal(announcer.offered("weights"), undefined);
  });

  it("offers a name that others see before NATS has told this machine", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const other = await bridgeOf(names, "other");
    const presences = [await one.claim(), await other.claim()];
    one.store.watcher = undefined;
    await one.announcer.announce(wanted("one", { weights: 1 }));
    assert.equal(other.directory.entry("weights")?.record.object, 1);
    assert.equal(one.announcer.offered("weights")?.object, 1);
    await other.announcer.announce(wanted("other", { weights: 9 }));
    assert.equal(other.announcer.offered("weights"), undefined, "another machine's name");
    for (const presence of presences) await presence.close();
  });

  it("says that it must be called again if a write came too late", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const presence = await one.claim();
    await one.announcer.announce(wanted("one", { x: 1 }));
    // Another bridge writes the name, and this one does not see it yet.
    one.store.watcher = undefined;
    const { revision } = one.directory.entry("x") ?? assert.fail("it is not announced");
    names.write(nameKey("x"), Uint8Array.of(1), revision, {});
    assert.equal(await one.announcer.announce(wanted("one", { x: 2 })), false);
    await presence.close();
  });

  it("writes over a record that makes no sense, so that its machine can be ready", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const presence = await one.claim();
    names.write(nameKey("x"), Uint8Array.of(1), 0, {});
    assert.equal(one.directory.entry("x"), undefined);
    assert.equal(await one.announcer.announce(wanted("one", { x: 1 })), true);
    assert.equal(one.directory.entry("x")?.record.machine, "one");
    const service = serviceKey("double", "one");
    names.write(service, Uint8Array.of(1), 0, {});
    const services = new ServiceAnnouncer("one", one.store, one.directory, () => {});
    assert.equal(await services.announce(new Set(["double"])), true);
    assert.equal(one.directory.services().length, 1);
    await presence.close();
  });

  it("asks NATS about a record that its directory has no room for", async () => {
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const other = await bridgeOf(names, "other");
    const presences = [await one.claim(), await other.claim()];
    await other.announcer.announce(wanted("other", { x: 9 }));
    const own = encodeRecord(recordOf("one", "y", 3));
    names.write(nameKey("y"), own, 0, {});
    const gone = encodeRecord(recordOf("third", "z", 4));
    names.write(nameKey("z"), gone, 0, {});
    // As if all were beyond the limits.
    one.store.watcher = undefined;
    one.directory.onRestart();
    one.directory.onCurrent();
    assert.equal(await one.announcer.announce(wanted("one", { x: 1, y: 3, z: 5 })), true);
    assert.deepEqual(one.announcer.refused, [{ name: "x", machine: "other" }]);
    assert.deepEqual(names.read(nameKey("y"))?.value, own, "it is written already");
    assert.equal(other.directory.entry("z")?.record.machine, "one", "its machine is gone");
    for (const presence of presences) await presence.close();
  });
});

describe("Presence", () => {
  it("is one bridge's: another hub with the same name is refused", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
    const names = new MemoryNames();
    const first = await bridgeOf(names, "one");
    const presence = await first.claim();
    const second = await bridgeOf(names, "one");
    const place = {
      v: MACHINES_VERSION,
      machine: "one",
      place: "boot elsewhere",
      ucx: "1.22.0",
    } as const;
    const record = { ...place, instance: "11234567-89ab-4def-8123-456789abcdef", ready: false };
    const stop = new AbortController();
    const deadline = new Deadline("start", { signal: stop.signal }, Number.POSITIVE_INFINITY);
    const log: string[] = [];
    const say = (line: string) => log.push(line);
    const claiming = Presence.claim(second.store, record, deadline, say, nobody);
    stop.abort();
    await assert.rejects(claiming, { code: "ABORTED" });
    assert.match(
      log.join("\n"),
      /^machine "one" is announced by another bridge: waits .+ s for its/,
    );
    await presence.close();
    const later = await Presence.claim(second.store, record, endless, () => {}, nobody);
    assert.equal(second.directory.machine("one")?.record.place, "boot elsewhere");
    await later.close();
  });

  it("is taken over at once by the next bridge of the same hub", async () => {
    const names = new MemoryNames();
    const first = await bridgeOf(names, "one");
    const earlier = await first.claim();
    first.store.isCut = true;
    const next = await bridgeOf(names, "one");
    const presence = await next.claim();
    assert.equal(next.directory.machine("one")?.record.ready, false);
    await presence.close();
    await earlier.close();
  });

  it("that NATS has lost is written again, and not ready before the names are", async (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    let restored = 0;
    const presence = await one.claim({ ...nobody, onRestored: () => (restored += 1) });
    await presence.setReady(true);
    assert.equal(one.directory.isReady("one"), true);
    names.forget();
    assert.equal(one.directory.machine("one"), undefined);
    t.mock.timers.tick(defaults.machineTtlMs / 4);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(restored, 1);
    assert.equal(one.directory.isReady("one"), false);
    await presence.setReady(true);
    assert.equal(one.directory.isReady("one"), true);
    await presence.close();
  });

  it("that another bridge has taken is lost, and its owner is told", async (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const reasons: string[] = [];
    const onLost = (reason: { readonly code: string }) => reasons.push(reason.code);
    await one.claim({ ...nobody, onLost });
    names.pass(defaults.machineTtlMs);
    const record = {
      v: MACHINES_VERSION,
      machine: "one",
      place: "elsewhere",
      ucx: "1.22.0",
      ready: true,
    } as const;
    const instance = "21234567-89ab-4def-8123-456789abcdef";
    const store = names.connect();
    const taker = await Presence.claim(store, { ...record, instance }, endless, () => {}, nobody);
    t.mock.timers.tick(defaults.machineTtlMs / 4);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(reasons, ["BRIDGE_RUNNING"]);
    await taker.close();
  });

  it("writes over a record that makes no sense, at its start and later", async (t) => {
    t.mock.timers.enable({ apis: ["setInterval"] });
    const names = new MemoryNames();
    const one = await bridgeOf(names, "one");
    const key = machineKey("one");
    names.write(key, Uint8Array.of(1), 0, {});
    const reasons: string[] = [];
    let restored = 0;
    const presence = await one.claim({
      onRestored: () => (restored += 1),
      onLost: (reason) => reasons.push(reason.code),
    });
    assert.equal(one.directory.machine("one")?.record.ready, false);
    names.write(key, Uint8Array.of(2), names.read(key)?.revision ?? 0, {});
    assert.equal(one.directory.machine("one"), undefined);
    t.mock.timers.tick(defaults.machineTtlMs / 4);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(restored, 1);
    assert.equal(one.directory.machine("one")?.record.ready, false);
    assert.deepEqual(reasons, []);
    await presence.close();
  });
});
