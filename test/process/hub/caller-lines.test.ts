/** The stack of an error shows the line of the user's program. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const AT_ONCE = { timeoutMs: 1 };

async function stackOf(lineOfTheUser: () => Promise<unknown>): Promise<string> {
  try {
    await lineOfTheUser();
  } catch (error) {
    return (error as Error).stack ?? "";
  }
  throw new Error("nothing was thrown");
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
    using _taken = await hub.put("taken", Uint8Array.of(1));
    using writer = await hub.createChannel("frames", {
      dtype: "uint8",
      shape: [1],
      slots: 1,
    });
    using reader = await hub.openChannel("frames");
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
      inspect: async () => await hub.inspect("absent"),
      remove: async () => await hub.remove("absent"),
      next: async () => await reader.next(AT_ONCE),
      waitForReaders: async () => await writer.waitForReaders(2, AT_ONCE),
      request: async () => await service.request(undefined, AT_ONCE),
      connect: async () => await connect({ socket, start: false, ...AT_ONCE }),
    };
    for (const [name, call] of Object.entries(calls)) {
      const lines = (await stackOf(call)).split("\n").filter((line) => /^ {4}at /.test(line));
      assert.ok(
        lines.some((line) => line.includes("caller-lines.test.js")),
        `${name}: ${lines.join("\n")}`,
      );
    }
    {
      using slot = await writer.loan();
      slot.commit();
    }
    const full = await stackOf(async () => await writer.loan(AT_ONCE));
    assert.match(full, /caller-lines\.test\.js/);
  });
});
