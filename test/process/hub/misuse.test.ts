/** A mistake in options throws an error for the caller, and the connection keeps working. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const WORKS_IN_THREAD = new URL("./actors/works-in-thread.js", import.meta.url);

describe("a mistaken option", () => {
  checkLeaks();

  it("is a TypeError that names it, and the connection goes on", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("known", { dtype: "int8", shape: [1] });
    await made.publish();
    const wrong = (value: unknown) => value as never;
    const shape = { dtype: "int8", shape: [1] } as const;
    await assert.rejects(
      hub.create("x", { ...shape, lifetime: wrong("foo") }),
      /TypeError: lifetime must be "held"/,
    );
    await assert.rejects(
      hub.open("known", { access: wrong("rw") }),
      /TypeError: access must be "read"/,
    );
    await assert.rejects(
      hub.open("known", { wait: wrong("no") }),
      /TypeError: wait must be true or false/,
    );
    await assert.rejects(hub.open(wrong(null)), /TypeError: name must be a string, not null/);
    const metadata = { answer: wrong(42) };
    await assert.rejects(
      hub.createBundle("b", { x: shape }, { metadata }),
      /TypeError: metadata must be texts.*"answer"/,
    );
    await assert.rejects(connect({ socket: testHub.socket, hubIdleMs: -5 }), RangeError);
    assert.deepEqual(
      (await hub.list()).map(({ name }) => name),
      ["known"],
    );
  });

  it("leaves no lease behind if the signal is not an AbortSignal", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("known", { dtype: "int8", shape: [1] });
    await made.publish();
    await assert.rejects(
      hub.open("known", { signal: 5 as never }),
      /TypeError: signal must be an AbortSignal/,
    );
    assert.equal((await hub.status()).leases, 1);
  });
});

describe("an error of the hub", () => {
  it("has the caller in its stack", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    async function theCaller(): Promise<void> {
      await hub.remove("nothing");
    }
    await assert.rejects(theCaller(), (error: Error) => /theCaller/.test(error.stack ?? ""));
  });
});

describe("a worker thread", () => {
  it("shares and opens like a process, without warnings", async () => {
    await using testHub = await TestHub.start();
    await using actor = new Actor(WORKS_IN_THREAD, { args: [testHub.socket] });
    assert.deepEqual(await actor.says(), { read: [7, 8, 9], warnings: [] });
  });
});
