/** A watch of a hub that follows a script. test/process/watch has one of a real hub. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GpuMemory } from "../../../src/watch/gpu-memory.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import type { HeldObject } from "../../../src/wire/messages.js";
import { channelOf, results } from "../../support/messages.js";
import { obliging, type Script, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const TIMEOUT_MS = 200;
const [
  {
    objects: [entry],
  } = { objects: [] },
] = results.list as unknown as [{ objects: [HeldObject] }];
const [status = {}] = results.status;

describe("HubWatch", () => {
  it("looks for longer than its timeout if the list of everything takes as long", async () => {
    using folder = new TestFolder();
    const startMs = performance.now();
    const late: Script = ({ id }, connection) => {
      const isLate = () => performance.now() > startMs + 2 * TIMEOUT_MS;
      const channel = { ...entry, name: "frames", descriptor: channelOf({}) };
      void until("the timeout is over", isLate).then(() =>
        connection.reply(id, { objects: [channel], next: null }),
      );
      return undefined;
    };
    const script = obliging({
      status: () => status,
      clients: () => ({ clients: [], next: null }),
      changes: () => ({ objects: [], ended: [], next: 7, more: false, reset: true }),
      list: late,
      open: () => ({ code: "PERMISSION_DENIED", message: "Cannot open: not for you" }),
    });
    using _hub = new ScriptedHub(folder.socket, script);
    const gpus = new GpuMemory(() => assert.fail("no GPU"));
    await using watch = new HubWatch({ socket: folder.socket, program: "watch" }, gpus);
    const { hub, channels } = await watch.snapshot({ timeoutMs: TIMEOUT_MS });
    assert.deepEqual([hub.answers, hub.reason], [true, undefined]);
    assert.deepEqual(
      channels.map(({ name, unreadable }) => [name, unreadable]),
      [["frames", "Cannot open: not for you"]],
    );
  });
});
