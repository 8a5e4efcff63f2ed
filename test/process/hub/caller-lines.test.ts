/** The stack of an error shows the line of the user's program. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";

const ITEM = { dtype: "uint8", shape: [1] } as const;
const AT_ONCE = { timeoutMs: 1 };

async function stackOf(lineOfTheUser: () => Promise<unknown>, name = "it"): Promise<string> {
  try {
    await lineOfTheUser();
  } catch (error) {
    return (error as Error).stack ?? "";
  }
  throw new Error(`${name} threw nothing`);
}

async function assertShown(calls: Readonly<Record<string, () => Promise<unknown>>>) {
  const hidden = [];
  for (const [name, call] of Object.entries(calls)) {
    const stack = await stackOf(call, name);
    const lines = stack.split("\n").filter((line) => /^ {4}at /.test(line));
    if (!lines.some((line) => line.includes("caller-lines.test.js")))
      hidden.push(name, stack.split("\n").slice(0, 4));
  }
  assert.deepEqual(hidden, []);
}

describe("connect()", () => {
  it("refuses a misspelt device of the environment", async () => {
    const before = process.env.CUDA_IPC_DEVICE;
    process.env.CUDA_IPC_DEVICE = "cdua:0";
    try {
      await assert.rejects(connect({ start: false, ...AT_ONCE }), { code: "INVALID_DEVICE" });
    } finally {
      if (before === undefined) delete process.env.CUDA_IPC_DEVICE;
      else process.env.CUDA_IPC_DEVICE = before;
    }
  });
});

describe("the stack of an error", () => {
  checkLeaks();

  it("shows the line of the user's code, whatever the call waits for", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using taken = await hub.put("taken", Uint8Array.of(1));
    using writer = await hub.createChannel("frames", {
      dtype: "uint8",
      shape: [1],
      slots: 1,
    });
    using reader = await hub.openChannel("frames");
    const ended = await hub.open("taken");
    ended.close();
    const timeline = await hub.createTimeline("timeline");
    using imported = await hub.openTimeline("timeline");
    using folder = new TestFolder();
    const file = folder.file("taken.npy");
    await hub.save("taken", file);
    await using service = connectService(hub, "nobody");
    const socket = `${testHub.socket}.absent`;
    const calls: Readonly<Record<string, () => Promise<unknown>>> = {
      put: async () => await hub.put("taken", Uint8Array.of(1)),
      create: async () => await hub.create("taken", { dtype: "uint8", shape: [1] }),
      createBundle: async () =>
        await hub.createBundle("taken", { a: { dtype: "uint8", shape: [1] } }),
      createChannel: async () => await hub.createChannel("taken", { dtype: "uint8", shape: [1] }),
      open: async () => await hub.open("absent", AT_ONCE),
      openBundle: async () => await hub.openBundle("absent", AT_ONCE),
      openChannel: async () => await hub.openChannel("absent", AT_ONCE),
      openAny: async () => await hub.openAny("absent", AT_ONCE),
      openTimeline: async () => await hub.openTimeline("absent", AT_ONCE),
      createTimeline: async () => await hub.createTimeline("taken"),
      resumeTimeline: async () => await hub.resumeTimeline("absent", AT_ONCE),
      resumeChannel: async () => await hub.resumeChannel("absent", AT_ONCE),
      observeChannel: async () => await hub.observeChannel("absent", AT_ONCE),
      load: async () => await hub.load("taken", file),
      loadOfNoFile: async () => await hub.load("other", `${file}.absent`),
      save: async () => await hub.save("absent", file, { wait: false }),
      write: async () => await taken.write(new Uint8Array(2)),
      "write with a stream": async () => await ended.write(Uint8Array.of(1)),
      read: async () => await ended.read(),
      timelineWait: async () => await timeline.wait(1, AT_ONCE),
      "timelineWait of one that ends": async () => {
        setImmediate(() => timeline.close());
        await imported.wait(1);
      },
      stop: async () => await hub.stop(),
      restart: async () => await hub.restart({ timeoutMs: 0 }),
      serve: async () => await serve(hub, "x y", { request: ITEM }, () => {}),
      inspect: async () => await hub.inspect("absent"),
      remove: async () => await hub.remove("absent"),
      next: async () => await reader.next(AT_ONCE),
      waitForReaders: async () => await writer.waitForReaders(2, AT_ONCE),
      request: async () => await service.request(undefined, AT_ONCE),
      connect: async () => await connect({ socket, start: false, ...AT_ONCE }),
    };
    await assertShown(calls);
    {
      using slot = await writer.loan();
      slot.commit();
    }
    const full = await stackOf(async () => await writer.loan(AT_ONCE));
    assert.match(full, /caller-lines\.test\.js/);
  });

  it("shows the line of the user's code after the hub is gone, in each call", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ reconnect: false });
    using made = await hub.create("made", ITEM);
    using timeline = await hub.createTimeline("timeline");
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    testHub.kill("SIGKILL");
    await ended;
    await assertShown({
      list: async () => await hub.list(),
      open: async () => await hub.open("made"),
      create: async () => await hub.create("other", ITEM),
      createChannel: async () => await hub.createChannel("other", ITEM),
      put: async () => await hub.put("other", Uint8Array.of(1)),
      publish: async () => await made.publish(),
      status: async () => await hub.status(),
      timelineWait: async () => await timeline.wait(1, AT_ONCE),
    });
  });
});
