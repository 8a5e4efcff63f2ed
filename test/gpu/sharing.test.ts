/** The whole path on a real GPU: processes share arrays and bundles by name. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { DeviceBuffer } from "../../src/doors/interop.js";
import type { Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { until } from "../support/until.js";
import { withGpuHub } from "./gpu-hub.js";

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
  const [message] = (await once(child, "message", { signal: AbortSignal.timeout(60_000) })) as [
    Found,
  ];
  if (child.exitCode === null) await once(child, "exit");
  return message;
}

describe("sharing on cuda:0", { skip: absence ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  it("gives another process the same bytes, and sees what it writes", async () => {
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

  it("keeps a pinned object after its producer ended, until it is removed", async () => {
    const before = hub.device().memoryInfo().freeBytes;
    {
      using array = await hub.create("gpu-pinned", {
        dtype: "int32",
        shape: [64 * 1024 * 1024],
        lifetime: "pinned",
      });
      await array
        .slice({ start: 0, stop: 1000 })
        .write(Int32Array.from({ length: 1000 }, (_, index) => index * 3));
      await array.publish();
    }
    using again = await hub.open("gpu-pinned");
    assert.equal((await again.expectDType("int32").slice(999).read())[0], 2997);
    again.close();
    await hub.remove("gpu-pinned");
    // Later, because the keeper closes its copy of the descriptor a moment after the hub.
    await until(
      "the GPU memory is given back",
      () => before - hub.device().memoryInfo().freeBytes < 64 * 1024 * 1024,
    );
  });

  it("frees the memory of a killed producer", async () => {
    const byteLength = 1024 ** 3;
    const freeBefore = hub.device().memoryInfo().freeBytes;
    const actor = fileURLToPath(new URL("actors/producer.js", import.meta.url));
    const child = fork(actor, [hub.socketPath, "gpu-killed", String(byteLength)]);
    await once(child, "message", { signal: AbortSignal.timeout(60_000) });
    const reader = await hub.open("gpu-killed");
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
    assert.equal((await reader.expectDType("uint8").slice({ start: -5 }).read()).length, 5);
    reader.close();
    // The hub learns of the end by a pidfd: soon, but not at once.
    const deadline = Date.now() + 30_000;
    for (;;) {
      const { freeBytes } = hub.device().memoryInfo();
      const names = (await hub.list()).map((object) => object.name);
      if (!names.includes("gpu-killed") && freeBefore - freeBytes < byteLength / 2) break;
      assert.ok(
        Date.now() < deadline,
        `30 s after the kill ${freeBefore - freeBytes} bytes are missing, names: ${names}`,
      );
    }
  });

  it("reports that a GPU is full or missing, and leaves nothing behind", async () => {
    const { totalBytes } = hub.device().memoryInfo();
    const shape = [totalBytes * 2];
    await assert.rejects(hub.create("gpu-too-large", { dtype: "uint8", shape }), {
      code: "OUT_OF_MEMORY",
    });
    await assert.rejects(hub.open("gpu-too-large", { wait: false }), { code: "NOT_FOUND" });
    await assert.rejects(
      hub.create("gpu-nowhere", { dtype: "uint8", shape: [1], device: "cuda:9" }),
      {
        code: "DEVICE_NOT_FOUND",
      },
    );
  });

  it("refuses a descriptor that claims more than its memory", async () => {
    using small = DeviceBuffer.allocate(hub.device(), 1000);
    using fd = small.exportFd();
    const claim = {
      label: "claim",
      byteLength: 2 ** 30,
      allocationByteLength: 2 ** 30,
      access: "read",
    } as const;
    assert.throws(() => DeviceBuffer.import(hub.device(), fd, claim), {
      code: "INVALID_DESCRIPTOR",
    });
  });

  it("refuses a write through a read-only mapping, and still works", async () => {
    using array = await hub.create("gpu-readonly", { dtype: "float32", shape: [1000] });
    await array.clear();
    await array.publish();
    using reader = await hub.open("gpu-readonly");
    await assert.rejects(reader.expectDType("float32").write(new Float32Array(1000)), {
      code: "READ_ONLY",
    });
    assert.deepEqual(await reader.read(), new Float32Array(1000));
  });

  it("touches only the selected elements in slices, transposes and strided writes", async () => {
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
    for (let row = 0; row < 50; row += 7)
      for (let at = 69; at > 0; at -= 9) expected[row * 70 + at] = -1;
    assert.deepEqual(await array.read(), expected);
    const transposed = new Float32Array(3500).map(
      (_, at) => expected[(at % 50) * 70 + Math.floor(at / 50)] ?? 0,
    );
    assert.deepEqual(await array.transpose().read(), transposed);
  });

  it("reads and writes a large transposed array", async () => {
    const [rows, columns] = [2048, 3000];
    using array = await hub.create("gpu-transposed", { dtype: "int32", shape: [rows, columns] });
    const turned = Int32Array.from({ length: rows * columns }, (_, index) => index);
    await array.transpose().write(turned);
    const straight = (await array.read()) as Int32Array;
    assert.equal(
      straight.findIndex((value, at) => value !== (at % columns) * rows + Math.floor(at / columns)),
      -1,
    );
    assert.deepEqual(await array.transpose().read(), turned);
  });
});
