import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { FetchParts } from "../../../../src/bridge/transfer/fetch.js";
import { FetchTable, type PullState } from "../../../../src/bridge/transfer/fetch-table.js";
import { IndexAccount } from "../../../../src/bridge/transfer/index-account.js";
import type { ReplicaPlan } from "../../../../src/client/objects/put-replica.js";
import type { NameRecord } from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import type { ObjectSummary } from "../../../../src/wire/messages.js";
import { channelContent, hostArray } from "../../../support/messages.js";
import { until } from "../../../support/until.js";
import { watchedObject } from "../../watch/samples.js";

/** Without bytes, so that no link has to copy any. */
const record: NameRecord = {
  v: MACHINES_VERSION,
  name: "grid",
  machine: "one",
  object: 5,
  sharedWith: "private",
  createdAtMs: 1,
  descriptor: {
    ...hostArray,
    byteLength: 0,
    content: {
      kind: "array",
      array: { dtype: "float32", shape: [0], strides: [4], byteOffset: 0 },
    },
  },
};

function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

const directory = {
  machine: () => ({ record: { instance: "first", ready: true } }),
  entry: () => ({ record, revision: 1 }),
  find: () => record,
  onChange: () => () => {},
};

/** One pull of a name. The test decides when the machine answers and when the hub publishes. */
function pulling() {
  const answer = gate();
  const publish = gate();
  const rig = {
    answer: answer.open,
    publish: publish.open,
    isFilled: false,
    log: [] as string[],
    leave: new AbortController(),
    pulled: Promise.resolve() as Promise<unknown>,
  };
  const opened = { export: 1, descriptor: record.descriptor, indexByteLength: 0 };
  const link = { open: true, call: ({ op }: { op: string }) => Promise.resolve(op && opened) };
  const hub = {
    inspect: () => Promise.reject(new CudaIpcError("NOT_FOUND", "there is none")),
    putReplica: async ({ fill, signal }: ReplicaPlan) => {
      await answer.opened;
      await fill({} as never);
      rig.isFilled = true;
      await publish.opened;
      signal.throwIfAborted();
      return { [Symbol.dispose]: () => {} };
    },
  };
  const parts = {
    hub,
    directory,
    links: { to: () => Promise.resolve(link) },
    device: "host",
    indexes: new IndexAccount("bridgeIndexBytesMax", 0),
  } as unknown as FetchParts;
  const table = new FetchTable(
    "other",
    parts,
    () => "",
    (line) => rig.log.push(line),
  );
  const { signal } = rig.leave;
  rig.pulled = table.pull("grid", { wait: true, signal, onState: () => {} });
  rig.pulled.catch(() => {});
  return rig;
}

describe("a copy that nobody waits for any more", () => {
  it("is published if all its bytes are here: who has opened it waits no longer", async () => {
    const rig = pulling();
    rig.answer();
    await until("all bytes are here", () => rig.isFilled);
    rig.leave.abort(new CudaIpcError("ABORTED", "it is open"));
    await assert.rejects(rig.pulled, { code: "ABORTED" });
    rig.publish();
    await until("the copy has ended", () => rig.log.length > 0);
    assert.deepEqual(rig.log, ['copied: "grid" from machine "one"']);
  });

  it("is given up before", async () => {
    const rig = pulling();
    rig.leave.abort(new CudaIpcError("ABORTED", "no longer wanted"));
    await assert.rejects(rig.pulled, { code: "ABORTED" });
    rig.answer();
    rig.publish();
    await until("the copy has ended", () => rig.log.length > 0);
    assert.match(rig.log.join(), /^not copied: "grid"/);
  });
});

describe("an object of this machine that claims to be a copy", () => {
  const { name, machine, object, descriptor } = record;
  const copy = watchedObject({
    ...{ name, object: 8, published: true },
    descriptor: { ...descriptor, replicaOf: { machine, object } },
  });
  const uid = copy.ownerUid;

  /** A table on whose hub the name is this object's. It fails if it copies anything. */
  function tableWith(local: ObjectSummary): FetchTable {
    const hub = {
      inspect: () => Promise.resolve({ object: local, holders: [] }),
      putReplica: () => assert.fail("nothing must be copied"),
    };
    const parts = { hub, uid, directory, device: "host" } as unknown as FetchParts;
    return new FetchTable("other", parts, () => "", assert.fail);
  }

  function pull(local: ObjectSummary, wait: boolean): Promise<PullState> {
    const { signal } = new AbortController();
    return tableWith(local).pull(name, { wait, signal, onState: () => {} });
  }

  it("is a copy if it belongs to the bridge's own user", async () => {
    const { byteLength } = descriptor;
    assert.deepEqual(await pull(copy, false), { state: "done", machine, byteLength });
  });

  it("has only taken the name if it belongs to another user", async () => {
    const claims = { ...copy, ownerUid: uid + 1 };
    const earlier = { ...descriptor, replicaOf: { machine, object: object - 1 } };
    for (const local of [
      claims,
      { ...claims, descriptor: earlier },
      { ...claims, published: false },
      { ...claims, descriptor: { ...copy.descriptor, content: channelContent } },
    ])
      for (const wait of [false, true])
        await assert.rejects(pull(local, wait), {
          code: "NAME_TAKEN",
          message: new RegExp(`user ${uid + 1} .*"one"`),
        });
  });

  it("is not replaced by a copy if it belongs to another user", async () => {
    const earlier = { ...descriptor, replicaOf: { machine, object: object - 1 } };
    await tableWith({ ...copy, ownerUid: uid + 1, descriptor: earlier }).refresh(record);
  });
});
