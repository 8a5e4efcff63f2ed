import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { FetchParts } from "../../../../src/bridge/transfer/fetch.js";
import { FetchTable } from "../../../../src/bridge/transfer/fetch-table.js";
import { IndexAccount } from "../../../../src/bridge/transfer/index-account.js";
import type { ReplicaPlan } from "../../../../src/client/objects/put-replica.js";
import type { NameRecord } from "../../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { hostArray } from "../../../support/messages.js";
import { until } from "../../../support/until.js";

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
  const directory = {
    machine: () => ({ record: { instance: "first", ready: true } }),
    entry: () => ({ record, revision: 1 }),
    find: () => record,
    onChange: () => () => {},
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
