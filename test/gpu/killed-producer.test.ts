/**
 * A producer that is killed while its queue on the GPU is full: what other processes see, and what
 * remains.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { connect } from "../../src/index.js";
import { openPidfd, ProcessWatch } from "../../src/os/process-watch.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { Actor } from "../support/actor.js";
import { whyNotUnderMps } from "../support/mps-server.js";
import { TestFolder } from "../support/test-folder.js";
import { soon, until } from "../support/until.js";

const LATE = { timeoutMs: 30_000 };
/** WHY a part of the total: other tests allocate on the same GPU, and must not matter. */
const PART_OF_FREE_MEMORY = 4;
const GRANULARITY_BYTES = 2 * 1024 ** 2;

/** The used memory of the GPU with this UUID, in bytes, as nvidia-smi reports it. */
function usedByNvidiaSmi(uuid: string): number {
  const query = ["--query-gpu=memory.used", "--format=csv,noheader,nounits", `--id=${uuid}`];
  return Number(execFileSync("nvidia-smi", query, { encoding: "utf8" })) * 1024 ** 2;
}

describe("a producer with a full queue of kernels on cuda:0", {
  skip: whyNoGpu() ?? whyNotUnderMps(),
}, () => {
  it("is killed: its memory is freed after its work, and waiting streams go on", async () => {
    await using folder = new TestFolder();
    await using hub = await connect({ socket: folder.socket, device: "cuda:0", hubIdleMs: 60_000 });
    const { uuid } = hub.device();
    const { freeBytes } = hub.device().memoryInfo();
    const unsharedBytes =
      Math.floor(freeBytes / PART_OF_FREE_MEMORY / GRANULARITY_BYTES) * GRANULARITY_BYTES;
    const usedBefore = usedByNvidiaSmi(uuid);
    await using actor = new Actor(new URL("actors/busy-producer.js", import.meta.url), {
      args: [folder.socket, String(unsharedBytes)],
    });
    const pid = Number(await actor.says());
    using counter = (await hub.open("counter", LATE)).expectDType("uint64");
    using done = await hub.openTimeline("done", LATE);
    const usedThen = usedByNvidiaSmi(uuid);
    assert.ok(
      usedThen - usedBefore >= unsharedBytes / 2,
      `nvidia-smi shows ${usedThen - usedBefore} bytes of it`,
    );

    using stream = hub.device().createStream();
    stream.wait(done, 1);
    const count = async () => (await counter.read())[0] as bigint;
    const early = await count();
    await until("the kernels count", async () => (await count()) > early);
    assert.equal(stream.isIdle(), false);

    const giveUpMs = performance.now() + LATE.timeoutMs;
    const pidfd = openPidfd(pid);
    assert.ok(pidfd !== undefined);
    const whenGone = new Promise<Promise<bigint>>(
      (resolve) => new ProcessWatch(pidfd, () => resolve(count())),
    );
    const gone = soon(
      "the process has ended",
      whenGone.then((first) => first),
    );
    actor.kill("SIGKILL");
    // WHY a loop: this is the earliest moment at which its end can be known.
    while (!done.ended && performance.now() < giveUpMs);
    const whenReleased = await count();
    const waiting = assert.rejects(done.wait(1, LATE), { code: "PEER_GONE" });
    await assert.rejects(stream.synchronize(LATE), { code: "PEER_GONE" });
    await waiting;
    assert.deepEqual([done.read({ evenIfEnded: true }), done.ended], [0n, true]);
    const whenEnded = await gone;
    await until(
      "the hub has released its objects",
      async () => !(await hub.list()).some(({ name }) => name === "unshared"),
    );
    const whenReclaimed = await count();
    assert.deepEqual(
      [whenEnded, whenReleased],
      [whenReclaimed, whenReclaimed],
      "its kernels wrote after its end was reported",
    );
    assert.ok(whenReclaimed > early);
    await until(
      "nvidia-smi shows that its memory is free",
      () => usedThen - usedByNvidiaSmi(uuid) > unsharedBytes / 2,
    );
    for (let i = 0; i < 20; i += 1) assert.equal(await count(), whenReclaimed);
  });
});
