/**
 * Timelines on a real GPU: two processes' streams in step, CPUs that release GPUs, and killed
 * owners.
 */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { withGpuHub } from "./gpu-hub.js";

const STEPS = 200;
const LATE = { timeoutMs: 30_000 };

describe("timelines on cuda:0", { skip: whyNoGpu() ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  function startPeer(end: "finish" | "stop"): ChildProcess {
    return fork(fileURLToPath(new URL("actors/timeline-peer.js", import.meta.url)), [
      hub.socketPath,
      String(STEPS),
      end,
    ]);
  }

  async function heard(child: ChildProcess): Promise<unknown> {
    const [message] = await once(child, "message", { signal: AbortSignal.timeout(60_000) });
    return message;
  }

  it("keep the GPUs of two processes in step while both CPUs continue", async () => {
    using mine = await hub.createTimeline("steps");
    using ring = await hub.create("ring", { dtype: "int32", shape: [2 * STEPS + 2] });
    await ring.clear();
    await ring.publish();
    const child = startPeer("finish");
    using theirs = await hub.openTimeline("peer-steps", LATE);
    assert.equal(await heard(child), "enqueued");
    using stream = hub.device().createStream();
    const { driver } = hub.device();
    for (let step = 1; step <= STEPS; step += 1) {
      driver.fill(
        stream.handle,
        ring.buffer.pointer + BigInt(8 * step + 4),
        { elementBytes: 4, value: 2 * step + 1 },
        1,
      );
      stream.batch([
        { signal: mine, value: step },
        { wait: theirs, value: step },
      ]);
    }
    await stream.synchronize(LATE);
    assert.deepEqual(await heard(child), { value: String(STEPS) });
    const expected = Int32Array.from({ length: 2 * STEPS + 2 }, (_, i) => (i < 2 ? 0 : i));
    assert.deepEqual(await ring.read(), expected);
    await theirs.wait(STEPS, LATE);
    child.send("go");
    await once(child, "exit");
    assert.equal(theirs.ended, true);
  });

  it("release streams that wait for a killed owner, by a store of the hub alone", async () => {
    using mine = await hub.createTimeline("steps");
    using ring = await hub.create("ring", { dtype: "int32", shape: [2 * STEPS + 2] });
    await ring.publish();
    const child = startPeer("stop");
    using theirs = await hub.openTimeline("peer-steps", LATE);
    assert.equal(await heard(child), "enqueued");
    using stream = hub.device().createStream();
    stream.wait(theirs, STEPS);
    mine.signal(STEPS);
    assert.equal(await heard(child), "stopped");
    assert.equal(stream.isIdle(), false);
    const waiting = assert.rejects(theirs.wait(STEPS, LATE), { code: "PEER_GONE" });
    child.kill("SIGKILL");
    await assert.rejects(stream.synchronize(LATE), { code: "PEER_GONE" });
    await waiting;
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [BigInt(STEPS / 2), true]);
  });

  it("let a CPU release a GPU, and a GPU release a CPU", async () => {
    using mine = await hub.createTimeline("cpu");
    using back = hub.device().createTimeline();
    using seen = await hub.openTimeline("cpu");
    using stream = hub.device().createStream();
    for (let step = 1; step <= 100; step += 1) {
      stream.wait(seen, step);
      stream.signal(back, step);
      assert.equal(back.value < BigInt(step), true);
      mine.signal(step);
      await back.wait(step, LATE);
    }
    await stream.synchronize(LATE);
  });

  it("let other processes allocate, map and free memory while a stream waits", async () => {
    using timeline = hub.device().createTimeline();
    using stream = hub.device().createStream();
    stream.wait(timeline, 1);
    using array = await hub.create("meanwhile", { dtype: "float32", shape: [1_000_000] });
    await array.write(new Float32Array(1_000_000).fill(2));
    assert.equal((await array.slice(999_999).read())[0], 2);
    assert.equal(stream.isIdle(), false);
    array.close();
    timeline.signal(1);
    await stream.synchronize(LATE);
  });
});
