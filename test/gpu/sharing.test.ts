/** The whole path on a real GPU: arrays and bundles by name between processes. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { connect, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";

const absence = whyNoGpu();

interface Found {
  readonly wrong: number;
  readonly count: number;
  readonly mechanism: string;
  readonly device: string;
}

async function consume(socket: string, name: string, seed: number, access: string): Promise<Found> {
  const actor = fileURLToPath(new URL("actors/consumer.js", import.meta.url));
  const child = fork(actor, [socket, name, String(seed), access]);
  const [message] = (await once(child, "message", { signal: AbortSignal.timeout(60_000) })) as [Found];
  if (child.exitCode === null) await once(child, "exit");
  return message;
}

describe("sharing on cuda:0", { skip: absence ?? false }, () => {
  let folder: string;
  let hub: Hub;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "cuda-ipc-gpu-"));
    hub = await connect({ socket: join(folder, "hub.sock"), device: "cuda:0", hubIdleMs: 1000 });
  });

  after(async () => {
    await hub.stop({ force: true });
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("gives another process the same bytes, and takes back what it writes", async () => {
    const count = 3_000_001;
    using array = await hub.create("gpu-array", { dtype: "int32", shape: [count] });
    await array.write(Int32Array.from({ length: count }, (_, index) => index * 3 + 7));
    await array.publish();
    const found = await consume(hub.socketPath, "gpu-array", 7, "read-write");
    assert.deepEqual(found, { wrong: -1, count, mechanism: "vmm", device: "cuda:0" });
    const back = await array.read();
    assert.equal(
      back.findIndex((value, index) => value !== -(index * 3 + 7)),
      -1,
    );
  });

  it("outlives its producer when it is pinned, and goes when it is removed", async () => {
    const before = hub.device().memoryInfo().freeBytes;
    {
      using array = await hub.create("gpu-pinned", { dtype: "int32", shape: [64 * 1024 * 1024], lifetime: "pinned" });
      await array.slice({ start: 0, stop: 1000 }).write(Int32Array.from({ length: 1000 }, (_, index) => index * 3));
      await array.publish();
    }
    using again = await hub.open("gpu-pinned");
    assert.equal((await again.as("int32").slice(999).read())[0], 2997);
    again.close();
    await hub.remove("gpu-pinned");
    const freed = hub.device().memoryInfo().freeBytes;
    assert.ok(before - freed < 64 * 1024 * 1024, `${before - freed} bytes of GPU memory were not given back`);
  });

  it("refuses a write through a mapping for reading and goes on working", async () => {
    using array = await hub.create("gpu-readonly", { dtype: "float32", shape: [1000] });
    await array.clear();
    await array.publish();
    using reader = await hub.open("gpu-readonly");
    await assert.rejects(reader.as("float32").write(new Float32Array(1000)), { code: "READ_ONLY" });
    assert.deepEqual(await reader.read(), new Float32Array(1000));
  });

  it("slices, transposes and strided writes touch what they should", async () => {
    using array = await hub.create("gpu-strided", { dtype: "float32", shape: [50, 70] });
    const all = Float32Array.from({ length: 3500 }, (_, index) => index);
    await array.write(all);
    const column = await array.slice({}, 3).read();
    assert.deepEqual(
      column,
      Float32Array.from({ length: 50 }, (_, row) => row * 70 + 3),
    );
    await array
      .slice({ start: 0, stop: 50, step: 7 }, { start: -1, stop: 0, step: -9 })
      .write(new Array(8 * 8).fill(-1));
    const expected = all.slice();
    for (let row = 0; row < 50; row += 7) for (let at = 69; at > 0; at -= 9) expected[row * 70 + at] = -1;
    assert.deepEqual(await array.read(), expected);
  });
});
