/** Records that bridges of other versions wrote, and may have left behind. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { Announcer } from "../../../../src/bridge/names/announcer.js";
import { Directory } from "../../../../src/bridge/names/directory.js";
import { Presence } from "../../../../src/bridge/names/presence.js";
import { ServiceAnnouncer } from "../../../../src/bridge/names/service-announcer.js";
import {
  encodeRecord,
  type MachineRecord,
  machineKey,
  type NameRecord,
  nameKey,
  serviceKey,
} from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { MemoryNames } from "../../../support/machines/memory-names.js";
import { hostArray } from "../../../support/messages.js";

const endless = new Deadline("start", {}, Number.POSITIVE_INFINITY);
const record: MachineRecord = {
  v: MACHINES_VERSION,
  machine: "one",
  instance: "01234567-89ab-4def-8123-456789abcdef",
  place: "boot one",
  ucx: "1.22.0",
  ready: false,
};

/** A bridge of machine "one", and what older or newer bridges have written. */
async function bridge(version: number) {
  const names = new MemoryNames();
  const others = names.connect();
  const store = names.connect();
  const log: string[] = [];
  const say = (line: string) => log.push(line);
  const directory = new Directory("one", say);
  await store.watch(directory);
  // The field `more` stands for what this version does not know.
  const write = async (key: string, machine: string, more: object = {}) => {
    const value = Buffer.from(JSON.stringify({ v: version, machine, more: 1, ...more }));
    const found = await others.read(key);
    if (found?.value === undefined) await others.create(key, value);
    else await others.update(key, value, found.revision);
  };
  return {
    ...{ names, directory, log, write },
    announcer: new Announcer("one", store, directory, say),
    services: new ServiceAnnouncer("one", store, directory, say),
    claim: (deadline = endless) =>
      Presence.claim(store, record, deadline, say, { onRestored() {}, onLost() {} }),
  };
}

function wanted(name: string): ReadonlyMap<string, NameRecord> {
  const fields = { sharedWith: "private", createdAtMs: 1, descriptor: hostArray } as const;
  return new Map([[name, { v: MACHINES_VERSION, name, machine: "one", object: 7, ...fields }]]);
}

for (const [which, version] of [
  ["an older", MACHINES_VERSION - 1],
  ["a newer", MACHINES_VERSION + 1],
] as const)
  describe(`what a bridge of ${which} version wrote`, () => {
    it("says why its names cannot be used, while it runs", async () => {
      const { directory, write, log, names } = await bridge(version);
      await write(nameKey("weights"), "two");
      assert.equal(directory.mismatchOf("fetch", "weights"), undefined);
      await write(machineKey("two"), "two");
      await write(serviceKey("double", "two"), "two");
      assert.equal(directory.find("weights"), undefined);
      assert.equal(directory.versionOf("two"), version);
      for (const found of [
        directory.mismatchOf("use it", "weights"),
        directory.mismatchOfService("use it", "double"),
      ]) {
        assert.equal(found?.code, "PROTOCOL_MISMATCH");
        const speaks = `the bridge of machine "two" speaks version ${version}`;
        assert.ok(found.message.startsWith(`Cannot use it: ${speaks}, `), found.message);
      }
      assert.equal(directory.mismatchOf("use it", "others"), undefined);
      assert.equal(directory.mismatchOfService("use it", "others"), undefined);
      assert.equal(log.length, 3);
      names.forget();
      assert.equal(directory.mismatchOf("use it", "weights"), undefined);
      assert.equal(directory.versionOf("two"), undefined);
    });

    it("is no news when it is renewed, and is replaced by what this version writes", async () => {
      const { directory, write, log, names } = await bridge(version);
      let changes = 0;
      directory.onChange(() => (changes += 1));
      await write(machineKey("two"), "two");
      await write(machineKey("two"), "two");
      assert.deepEqual([changes, log.length], [1, 1]);
      const store = names.connect();
      const { revision = 0 } = (await store.read(machineKey("two"))) ?? {};
      const upgraded = encodeRecord({ ...record, machine: "two", ready: true });
      await store.update(machineKey("two"), upgraded, revision);
      assert.equal(directory.versionOf("two"), MACHINES_VERSION);
      assert.equal(directory.isReady("two"), true);
    });

    it("keeps a name while its machine is there, and loses it with its machine", async () => {
      const { directory, write, announcer, names } = await bridge(version);
      await write(machineKey("two"), "two");
      await write(nameKey("weights"), "two");
      assert.equal(await announcer.announce(wanted("weights")), true);
      assert.deepEqual(announcer.refused, [{ name: "weights", machine: "two" }]);
      const store = names.connect();
      const { revision = 0 } = (await store.read(machineKey("two"))) ?? {};
      await store.remove(machineKey("two"), revision);
      assert.equal(await announcer.announce(wanted("weights")), true);
      assert.equal(directory.entry("weights")?.record.machine, "one");
    });

    it("on the same machine is taken over by the next bridge", async () => {
      const { directory, write, announcer, services, claim } = await bridge(version);
      await write(machineKey("one"), "one", { place: record.place });
      for (const name of ["weights", "ended"]) await write(nameKey(name), "one");
      for (const service of ["double", "ended"]) await write(serviceKey(service, "one"), "one");
      const presence = await claim();
      assert.equal(await announcer.announce(wanted("weights")), true);
      assert.equal(await services.announce(new Set(["double"])), true);
      assert.equal(directory.others.size, 0);
      assert.equal(directory.entry("weights")?.record.object, 7);
      assert.deepEqual(
        directory.services().map(({ record: { service } }) => service),
        ["double"],
      );
      await presence.close();
    });

    it("of another hub keeps the machine", async () => {
      const { write, claim, log } = await bridge(version);
      await write(machineKey("one"), "one", { place: "boot elsewhere" });
      const stop = new AbortController();
      const claiming = claim(new Deadline("start", { signal: stop.signal }, 30_000));
      await new Promise((resolve) => setImmediate(resolve));
      assert.match(log.at(-1) ?? "", /^machine "one" is announced by another bridge/);
      stop.abort();
      await assert.rejects(claiming, { code: "ABORTED" });
    });
  });
