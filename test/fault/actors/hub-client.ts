/**
 * Carries out commands on the hub at argument 0, one word a line. Reports the error code of each
 * one, or null.
 */
import assert from "node:assert/strict";
import { CudaIpcError } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { argument, say, told } from "../../support/actor-side.js";

const SHAPE = { dtype: "int32", shape: [3] } as const;
const VALUES = Int32Array.of(1, 2, 3);

let joined: Hub | undefined;
const open: { close(): void }[] = [];

function join(): Promise<Hub> {
  return connect({ socket: argument(0), start: false, device: "host" });
}

function hub(): Hub {
  assert.ok(joined !== undefined, "the client is connected");
  return joined;
}

const deeds: Readonly<Record<string, () => Promise<unknown>>> = {
  async connect() {
    joined = await join();
  },
  create: async () => open.push(await hub().create("frame", SHAPE)),
  async publish() {
    const array = await hub().create("published", SHAPE);
    open.push(array);
    await array.write(VALUES);
    await array.publish();
  },
  async open() {
    const array = await hub().open("published");
    open.push(array);
    assert.deepEqual(await array.read(), VALUES);
  },
  createTimeline: async () => open.push(await hub().createTimeline("steps")),
  openTimeline: async () => open.push(await hub().openTimeline("steps")),
  createBundle: async () => open.push(await hub().createBundle("model", { a: SHAPE, b: SHAPE })),
  async bundle() {
    const bundle = await hub().createBundle("model", { a: SHAPE });
    open.push(bundle);
    await bundle.publish();
  },
  openBundle: async () => open.push(await hub().openBundle("model")),
  async giveUp() {
    const late = hub().open("nothing", { timeoutMs: 1 });
    await assert.rejects(late, (error) => error instanceof CudaIpcError);
    await hub().status();
  },
  async ask() {
    await hub().list();
    await hub().inspect("published");
    await hub().status();
  },
  remove: () => hub().remove("published"),
  async close() {
    for (const each of open.splice(0)) each.close();
    await hub().status();
  },
  async leave() {
    open.splice(0);
    const leaving = joined;
    joined = undefined;
    await leaving?.close();
  },
  stop: () => hub().stop({ force: true }),
  /** Checks with a second connection that the hub serves others. */
  async probe() {
    await using other = await join();
    using array = await other.create("probe", SHAPE);
    await array.write(VALUES);
    await array.publish();
    using opened = await other.open("probe");
    assert.deepEqual(await opened.read(), VALUES);
  },
  status: async () => {
    await using other = await join();
    const { objects, leases, clients, waitingOpens } = await other.status();
    return { objects, leases, clients: clients - 1, waitingOpens };
  },
};

say("ready");
for (;;) {
  const deed = await told();
  try {
    const result = await deeds[deed]?.();
    say({ code: null, ...(deed === "status" ? { status: result } : {}) });
  } catch (error) {
    say({ code: error instanceof CudaIpcError ? error.code : "other", message: String(error) });
  }
}
