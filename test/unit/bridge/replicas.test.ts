import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { type ReplicaRules, Replicas, stepFor } from "../../../src/bridge/replicas.js";
import type { NameRecord } from "../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { channelContent, hostArray } from "../../support/messages.js";
import { watchedObject } from "../watch/samples.js";

const replica = { name: "weights", machine: "one", object: 5, isChannel: false };
const record: NameRecord = {
  v: MACHINES_VERSION,
  name: "weights",
  machine: "one",
  object: 5,
  sharedWith: "private",
  createdAtMs: 1,
  descriptor: hostArray,
};

function directory(entry: NameRecord | undefined, isReady: boolean, isCurrent = true) {
  return {
    isCurrent,
    isReady: () => isReady,
    entry: () => (entry === undefined ? undefined : { record: entry, revision: 1 }),
    find: () => (isReady ? entry : undefined),
  };
}

describe("stepFor", () => {
  it("keeps a copy of the object that is announced", () => {
    assert.deepEqual(stepFor(replica, directory(record, true), false), { do: "nothing" });
  });

  it("fetches a later object, also of another machine", () => {
    for (const change of [{ object: 6 }, { machine: "other" }]) {
      const later = { ...record, ...change };
      const step = stepFor(replica, directory(later, true), false);
      assert.deepEqual(step, { do: "fetch", record: later });
    }
  });

  it("removes a copy in whose stead there is a channel, or that is one", () => {
    const later = { ...record, object: 6 };
    const channel = { ...later, descriptor: { ...hostArray, content: channelContent } };
    const removed = { do: "remove" } as const;
    assert.deepEqual(stepFor(replica, directory(channel, true), true), removed);
    const carried = { ...replica, isChannel: true };
    assert.deepEqual(stepFor(carried, directory(channel, true), false), removed);
    assert.deepEqual(stepFor(carried, directory(later, true), false), removed);
    const same = { ...channel, object: 5 };
    assert.deepEqual(stepFor(carried, directory(same, true), false), { do: "nothing" });
  });

  it("removes a copy only if the machine is ready and announces the name no more", () => {
    assert.deepEqual(stepFor(replica, directory(undefined, true), false), { do: "remove" });
    assert.deepEqual(stepFor(replica, directory(undefined, true), true), { do: "nothing" });
    assert.deepEqual(stepFor(replica, directory(undefined, false), false), { do: "nothing" });
    assert.deepEqual(stepFor(replica, directory(record, false), false), { do: "nothing" });
    const notYet = directory(undefined, true, false);
    assert.deepEqual(stepFor(replica, notYet, false), { do: "nothing" });
  });
});

describe("Replicas", () => {
  const { name, machine, object } = replica;
  const descriptor = { ...hostArray, replicaOf: { machine, object } };
  const copy = watchedObject({ name, object: 8, published: true, descriptor });
  const uid = copy.ownerUid;

  function replicas(remove: (...asked: unknown[]) => Promise<void>, later?: NameRecord) {
    const log: string[] = [];
    const fetched: NameRecord[] = [];
    const refresh = async (record: NameRecord) => {
      fetched.push(record);
    };
    const rules = {
      hub: { remove },
      machine: "two",
      uid,
      directory: { ...directory(later, true), entries: () => [] },
      fetches: { refresh },
      keep: false,
      isPulled: () => false,
      log: (line: string) => log.push(line),
    };
    return { log, fetched, replicas: new Replicas(rules as unknown as ReplicaRules) };
  }

  it("removes a copy by its number, because another object may have the name by then", async () => {
    const asked: unknown[] = [];
    const { log, replicas: two } = replicas(async (...given) => {
      asked.push(given);
    });
    await two.keepInStep([copy]);
    assert.deepEqual(asked, [[name, { object: 8 }]]);
    assert.equal(log.length, 1);
  });

  it("leaves the channels of a service's links, which nobody announces", async () => {
    const { log, replicas: two } = replicas(() => Promise.reject(new Error("removed")));
    const link = { ...descriptor, content: channelContent };
    await two.keepInStep([{ ...copy, name: "double:w1a2b:0", descriptor: link }]);
    assert.deepEqual(log, []);
  });

  it("leaves an object of another user, whatever that user claims of it", async () => {
    const later = { ...record, object: 6 };
    const claimed = { ...copy, ownerUid: uid + 1 };
    const removing = replicas(() => Promise.reject(new Error("removed")));
    await removing.replicas.keepInStep([claimed]);
    assert.deepEqual(removing.log, []);
    const fetching = replicas(async () => {}, later);
    await fetching.replicas.keepInStep([claimed]);
    assert.deepEqual(fetching.fetched, []);
    // The same object counts as a copy if it belongs to the bridge's own user.
    await fetching.replicas.keepInStep([copy]);
    assert.deepEqual(fetching.fetched, [later]);
  });

  it("goes on if a copy cannot be removed, and says so once", async () => {
    const asked: unknown[] = [];
    const { log, replicas: two } = replicas(async (name) => {
      asked.push(name);
      throw new CudaIpcError("PERMISSION_DENIED", "it is another user's");
    });
    const second = { ...copy, name: "biases", object: 9 };
    for (let look = 0; look < 2; look += 1) await two.keepInStep([copy, second]);
    assert.deepEqual(asked, [name, "biases"]);
    assert.deepEqual(log, ["it is another user's", "it is another user's"]);
  });

  it("takes a name that is gone or another object's for removed", async () => {
    for (const code of ["NOT_FOUND", "STALE_HANDLE"] as const) {
      const { log, replicas: two } = replicas(() =>
        Promise.reject(new CudaIpcError(code, "Cannot remove it")),
      );
      await two.keepInStep([copy]);
      assert.deepEqual(log, []);
    }
  });
});
