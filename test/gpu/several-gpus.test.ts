/** Two GPUs: memory of one is used on the other, whichever GPUs a process sees, in any order. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import { DeviceArray, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { withGpuHub } from "./gpu-hub.js";

function whyNotTwo(): string | undefined {
  const absence = whyNoGpu();
  if (absence !== undefined) return absence;
  const driver = createCudaDriver();
  try {
    return driver.deviceCount() < 2 ? "one GPU only" : undefined;
  } finally {
    driver.close();
  }
}

describe("two GPUs", { skip: whyNotTwo() ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  for (const [visible, what] of [
    ["1,0", "both seen in another order"],
    ["1", "the exporter's not seen at all"],
  ] as const) {
    it(`map memory of the other one: ${what}`, async () => {
      const count = 1_000_003;
      using array = await hub.create("far", { dtype: "int32", shape: [count] });
      await array.write(Int32Array.from({ length: count }, (_, index) => index * 3 + 5));
      await array.publish();
      const child = fork(
        fileURLToPath(new URL("actors/other-gpu.js", import.meta.url)),
        [hub.socketPath, "far", "5"],
        {
          env: { ...process.env, CUDA_VISIBLE_DEVICES: visible },
        },
      );
      const [found] = await once(child, "message", { signal: AbortSignal.timeout(60_000) });
      assert.deepEqual(found, { wrong: -1, placement: "peer", uuid: hub.device("cuda:1").uuid });
      if (child.exitCode === null) await once(child, "exit");
      const back = await array.read();
      assert.equal(
        back.findIndex((value, index) => value !== -(index * 3 + 5)),
        -1,
      );
    });
  }

  it("run kernels in turns, whichever GPU was used last", async () => {
    const [zero, one] = [hub.device("cuda:0"), hub.device("cuda:1")];
    using zeroStream = zero.createStream();
    using oneStream = one.createStream();
    using zeroArray = DeviceArray.allocate(zero, { dtype: "float32", shape: [1000] });
    using oneArray = DeviceArray.allocate(one, { dtype: "float32", shape: [1000] });
    const sides = [
      { index: 0, stream: zeroStream, array: zeroArray },
      { index: 1, stream: oneStream, array: oneArray },
    ];
    for (let turn = 0; turn < 10; turn += 1) {
      for (const { stream, array, index } of sides) {
        await array.iota(turn + index, 1, { stream });
        await array.affine(2, index, { stream });
      }
    }
    for (const { stream, array, index } of sides) {
      await stream.synchronize({ timeoutMs: 10_000 });
      const wanted = Float32Array.from({ length: 1000 }, (_, at) => (9 + index + at) * 2 + index);
      assert.deepEqual(await array.read(), wanted);
    }
  });

  it("copy between each other in the order of a stream", async () => {
    using one = DeviceArray.allocate(hub.device("cuda:0"), {
      dtype: "float32",
      shape: [1_000_000],
    });
    using other = DeviceArray.allocate(hub.device("cuda:1"), {
      dtype: "float32",
      shape: [1_000_000],
    });
    const values = Float32Array.from({ length: 1_000_000 }, (_, index) => index / 7);
    await one.write(values);
    await other.copyFrom(one);
    assert.deepEqual(await other.read(), values);
    await one.clear();
    using stream = hub.device("cuda:1").createStream();
    await one.copyFrom(other, { stream });
    await stream.synchronize({ timeoutMs: 30_000 });
    assert.deepEqual(await one.read(), values);
  });

  it("wait for each other's timelines", async () => {
    using timeline = hub.device("cuda:0").createTimeline();
    using writer = hub.device("cuda:0").createStream();
    using reader = hub.device("cuda:1").createStream();
    reader.wait(timeline, 1);
    assert.equal(reader.isIdle(), false);
    writer.signal(timeline, 1);
    await reader.synchronize({ timeoutMs: 30_000 });
  });
});
