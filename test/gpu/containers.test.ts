/**
 * GPU memory between two containers made of namespaces, which share only the folder of the hub's
 * socket.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { Actor } from "../support/actor.js";
import { inContainer, skipWithoutContainers } from "../support/container.js";
import { shareAll } from "../support/share-all.js";
import { TestFolder } from "../support/test-folder.js";
import { TestHub } from "../support/test-hub.js";

const RAW = new URL("./actors/raw-handle.js", import.meta.url);

const whyNoMps =
  process.env.CUDA_MPS_PIPE_DIRECTORY !== undefined && "these containers have no MPS pipe folder";

describe("two containers with one GPU", {
  skip: whyNoGpu() ?? (skipWithoutContainers || whyNoMps),
}, () => {
  it("share memory, pools, bundles and timelines, which end with their process", async () => {
    await using hub = await TestHub.start({
      folder: new TestFolder(),
      within: (path) => inContainer(path),
    });
    const options = { args: [hub.socket, "cuda:0"], within: inContainer(hub.folder.path) };
    await shareAll((program) => new Actor(program, options));
  });

  it("open raw legacy handles if their pids differ, but not if both have pid 1", async () => {
    using folder = new TestFolder();
    const within = inContainer(folder.path);
    await using exporter = new Actor(RAW, { args: ["cuda:0"], within });
    const { pid, handle } = (await exporter.says()) as { pid: number; handle: string };
    assert.equal(pid, 1);
    await using same = new Actor(RAW, { args: ["cuda:0", handle], within });
    assert.deepEqual(await same.says(), { pid: 1, code: "OWN_HANDLE" });
    // The shell has pid 1, its child another.
    const second = [...within, "sh", "-c", '"$@"; exit $?', "sh"];
    await using other = new Actor(RAW, { args: ["cuda:0", handle], within: second });
    const { pid: otherPid, values } = (await other.says()) as { pid: number; values?: number[] };
    assert.notEqual(otherPid, 1);
    assert.deepEqual(values, [5, 6, 7, 8]);
  });
});
