/** A watch of a hub that follows a script. test/process/watch has one of a real hub. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { GpuMemory } from "../../../src/watch/gpu-memory.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import type { HeldObject } from "../../../src/wire/messages.js";
import { channelOf, results } from "../../support/messages.js";
import { obliging, type Script, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";

/** Three pages take longer than this, and each of them a third of it. */
const TIMEOUT_MS = 3000;
const PAGE_MS = 1100;

/** Stops the clock. Returns a function that lets time pass. */
function stoppedClock({ mock }: TestContext): (milliseconds: number) => void {
  let nowMs = performance.now();
  mock.method(performance, "now", () => nowMs);
  mock.timers.enable({ apis: ["setTimeout"] });
  return (milliseconds) => {
    nowMs += milliseconds;
    mock.timers.tick(milliseconds);
  };
}

const [
  {
    objects: [entry],
  } = { objects: [] },
] = results.list as unknown as [{ objects: [HeldObject] }];
const [status = {}] = results.status;

describe("HubWatch", () => {
  it("looks for longer than its timeout if the list of everything takes as long", async (t) => {
    const pass = stoppedClock(t);
    using folder = new TestFolder();
    const names = ["frames", "masks", "words"];
    const late: Script = ({ after }) => {
      const at = names.indexOf(String(after)) + 1;
      const channel = { ...entry, object: at + 1, name: names[at], descriptor: channelOf({}) };
      const next = at === names.length - 1 ? null : names[at];
      pass(PAGE_MS);
      return { objects: [channel], next };
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
      names.map((name) => [name, "Cannot open: not for you"]),
    );
  });
});
