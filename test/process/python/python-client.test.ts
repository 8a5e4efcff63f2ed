/** The example client in Python and the Node client share arrays through a real hub. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { MemoryPool } from "../../../src/doors/interop.js";
import { connect, type Hub } from "../../../src/index.js";
import { HubProcess, PythonPeer, skip } from "./python-peer.js";

let folder: string;
let socket: string;
let hubProcess: HubProcess;
let hub: Hub;

before(async () => {
  if (skip !== false) return;
  folder = await mkdtemp(join(tmpdir(), "cuda-ipc-python-"));
  socket = join(folder, "hub.sock");
  hubProcess = await HubProcess.start(socket);
  hub = await connect({ socket, device: "host" });
});

after(async () => {
  if (skip !== false) return;
  try {
    await hub?.close();
  } finally {
    await hubProcess?.end();
    await rm(folder, { recursive: true, force: true });
  }
});

class Peer extends PythonPeer {
  constructor(command: string, ...names: string[]) {
    super("peer.py", socket, command, ...names);
  }
}

function sha256(values: NodeJS.ArrayBufferView): string {
  return createHash("sha256")
    .update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    .digest("hex");
}

const samples = [
  { dtype: "bool", shape: [3], values: Uint8Array.of(1, 0, 1) },
  { dtype: "uint8", shape: [2, 2], values: Uint8Array.of(0, 127, 128, 255) },
  { dtype: "int16", shape: [3], values: Int16Array.of(-32768, 0, 32767) },
  { dtype: "uint32", shape: [1, 2], values: Uint32Array.of(0, 0xffffffff) },
  { dtype: "int64", shape: [2], values: BigInt64Array.of(-(2n ** 63n), 2n ** 53n + 1n) },
  { dtype: "uint64", shape: [], values: BigUint64Array.of(2n ** 64n - 1n) },
  { dtype: "float16", shape: [2], values: Uint16Array.of(0x3c00, 0x7e01) },
  { dtype: "bfloat16", shape: [2], values: Uint16Array.of(0x3f80, 0xffff) },
  { dtype: "float8_e4m3fn", shape: [2], values: Uint8Array.of(0x38, 0x7f) },
  { dtype: "float8_e5m2", shape: [2], values: Uint8Array.of(0x3c, 0x7c) },
  {
    dtype: "float32",
    shape: [2, 3],
    values: Float32Array.of(0, -0, 1e-45, Number.NaN, Infinity, -1.5),
  },
  { dtype: "float64", shape: [2, 1, 2], values: Float64Array.of(Math.PI, 5e-324, -0, 1e300) },
  { dtype: "complex64", shape: [2], values: Float32Array.of(1, -2, 3, -4) },
  { dtype: "complex128", shape: [1], values: Float64Array.of(0.1, -0.2) },
] as const;

test("Python reads what Node publishes: arrays of every kind of dtype, bit for bit", {
  skip,
}, async () => {
  for (const { dtype, shape, values } of samples) {
    const array = await hub.create(`node:${dtype}`, { dtype, shape });
    await array.write(values);
    await array.publish();
  }
  await using reader = new Peer("read", ...samples.map(({ dtype }) => `node:${dtype}`));
  for (const { dtype, shape, values } of samples) {
    assert.deepEqual(await reader.said(), {
      arrays: { "": { dtype, shape: [...shape], sha256: sha256(values) } },
      metadata: {},
      writing: "TypeError",
    });
  }
  assert.deepEqual(await reader.said(), [], "every memory file is closed after its release");
  await reader.finish();
});

test("Python reads the arrays of a bundle by name", { skip }, async () => {
  const weights = Float32Array.of(1, 2, 3, 4, 5, 6);
  const bundle = await hub.createBundle("node:bundle", {
    w: { dtype: "float32", shape: [3, 2] },
    "layers/0.bias": { dtype: "int8", shape: [5] },
    nothing: { dtype: "float64", shape: [2, 0] },
  });
  await bundle.array("w").write(weights);
  await bundle.array("layers/0.bias").write(Int8Array.of(-128, -1, 0, 1, 127));
  await bundle.publish();

  await using reader = new Peer("read", "node:bundle");
  assert.deepEqual(await reader.said(), {
    arrays: {
      w: { dtype: "float32", shape: [3, 2], sha256: sha256(weights) },
      "layers/0.bias": {
        dtype: "int8",
        shape: [5],
        sha256: sha256(Int8Array.of(-128, -1, 0, 1, 127)),
      },
      nothing: { dtype: "float64", shape: [2, 0], sha256: sha256(new Uint8Array()) },
    },
    metadata: {},
    writing: "TypeError",
  });
  assert.deepEqual(await reader.said(), []);
  await reader.finish();
});

test("Node reads what Python publishes, and writes where Python sees it", { skip }, async () => {
  await using writer = new Peer("write");
  assert.equal(
    await writer.said(),
    "HubError",
    "a name that is not published yet cannot be opened",
  );
  const published = (await writer.said()) as Record<string, Record<string, { sha256: string }>>;

  const expected: Record<string, NodeJS.ArrayBufferView> = {
    "py:weights": Float32Array.of(1.5, -2.5, 3.5, -0, Infinity, 1e-45),
    "py:counts": BigInt64Array.of(2n ** 53n + 1n, -(2n ** 63n)),
    "py:scalar": Uint16Array.of(0x3f80),
    "py:empty": new Float64Array(),
    "py:reverse": Int16Array.of(6, 8, 10, 0, 2, 4),
  };
  for (const [name, values] of Object.entries(expected)) {
    const array = await hub.open(name);
    assert.deepEqual(await array.read(), values);
    assert.equal(published[name]?.[""]?.sha256, sha256(values));
    await array.close();
  }

  const bundle = await hub.openBundle("py:bundle");
  assert.deepEqual({ ...bundle.metadata }, { made: "by Python" });
  assert.deepEqual([...bundle.names()], ["a", "empty", "größe/b"]);
  assert.deepEqual(await bundle.array("a").read(), Float32Array.of(1, 2, 3, 4));
  assert.deepEqual(await bundle.array("größe/b").read(), Uint8Array.of(1, 0, 1, 1, 0));
  assert.deepEqual([...bundle.array("empty").shape], [3, 0]);
  await bundle.close();

  const weights = await hub.open("py:weights", { access: "read-write" });
  await weights.write(Float32Array.of(42, 0, 0, 0, 0, 0));
  writer.endInput();
  assert.deepEqual(await writer.said(), { weights: 42 });
  await writer.finish();

  assert.deepEqual(
    await weights.read(),
    Float32Array.of(42, 0, 0, 0, 0, 0),
    "a lease outlives its producer",
  );
  await weights.close();
  const left = (await hub.list()).map(({ name }) => name).filter((name) => name.startsWith("py:"));
  assert.deepEqual(left, [], "bye gave back the leases, and the pinned object was removed");
});

test("Python refuses a timeline and pool memory, and keeps no lease", {
  skip,
}, async () => {
  using _timeline = await hub.createTimeline("node:timeline");
  using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
  using array = await hub.create("node:pooled", { dtype: "int8", shape: [4], pool });
  await array.publish();
  await using reader = new Peer("refuse", "node:timeline", "node:pooled");
  assert.match(String(await reader.said()), /^it is a timeline/);
  assert.match(String(await reader.said()), /^it is memory of a pool/);
  assert.equal(await reader.said(), 0);
  await reader.finish();
});

test("Python waits for a name until Node publishes it", { skip }, async () => {
  await using waiting = new Peer("wait", "node:later");
  while ((await hub.status()).waitingOpens === 0) await new Promise(setImmediate);
  const values = Uint16Array.of(1, 2, 65535);
  const array = await hub.create("node:later", { dtype: "uint16", shape: [3] });
  await array.write(values);
  await array.publish();
  assert.deepEqual(await waiting.said(), { dtype: "uint16", shape: [3], sha256: sha256(values) });
  await waiting.finish();
  await array.close();
});

test("Python aborts a wait, and its session goes on", { skip }, async () => {
  await using waiting = new Peer("give_up", "py:never");
  assert.equal(await waiting.said(), "TimeoutError");
  assert.equal(await waiting.said(), 0, "opens that still wait");
  assert.ok(((await waiting.said()) as string[]).includes("py:never"));
  assert.deepEqual(await waiting.said(), ["owner"]);
  await waiting.finish();
});

test("Python lists more objects than one packet holds", { skip }, async () => {
  await using lister = new Peer("many", "400");
  const others = (await hub.list()).filter(({ name }) => !name.startsWith("many:")).length;
  assert.deepEqual(await lister.said(), { listed: 400 + others, sorted: true });
  await lister.finish();
});

test("packets that break the protocol get the documented replies, and the hub goes on", {
  skip,
}, async () => {
  const before = await hub.status();
  await using sender = new Peer("raw");
  assert.deepEqual(await sender.said(), {
    packet: "not JSON",
    id: 0,
    code: "INVALID_MESSAGE",
    ended: true,
  });
  assert.deepEqual(await sender.said(), {
    packet: "an unknown operation",
    id: 7,
    code: "INVALID_MESSAGE",
    ended: true,
  });
  assert.deepEqual(await sender.said(), {
    packet: "another version",
    id: 8,
    code: "PROTOCOL_MISMATCH",
    ended: true,
  });
  const tooLarge = (await sender.said()) as { id: number };
  assert.deepEqual(tooLarge, {
    packet: "too large",
    id: tooLarge.id,
    code: "MESSAGE_TOO_LARGE",
    ended: true,
  });
  assert.deepEqual(await sender.said(), {
    packet: "a name nobody shares",
    id: 10,
    code: "NOT_FOUND",
    ended: false,
  });
  await sender.finish();
  assert.equal((await hub.status()).instance, before.instance);
});
