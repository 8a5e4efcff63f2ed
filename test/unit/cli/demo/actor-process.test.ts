import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ActorProcess } from "../../../../src/cli/demo/actor-process.js";

/** No hub listens at this path, so the actor fails and reports it. */
const part = { socket: "/nonexistent/hub.sock", device: "host", elements: 1, idleMs: 1000 };

describe("ActorProcess", () => {
  it("throws the actor's failure", async () => {
    const { signal } = new AbortController();
    const actor = ActorProcess.start("producer", part, {
      title: "producer",
      signal,
      onSay: () => {},
    });
    await assert.rejects(actor.reached("published"), {
      code: "HUB_UNAVAILABLE",
      message: /^The producer failed: /,
    });
    await actor.kill();
  });

  it("throws PEER_GONE if the actor ends before it reaches the point", async () => {
    const { signal } = new AbortController();
    const actor = ActorProcess.start("reader", part, {
      title: "latecomer",
      signal,
      onSay: () => {},
    });
    const waiting = assert.rejects(actor.reached("holding"), {
      code: "PEER_GONE",
      message: /^The latecomer .+: SIGKILL$/,
    });
    await actor.kill();
    await waiting;
    await assert.rejects(actor.finished(), { code: "PEER_GONE" });
  });

  it("stops waiting when its signal is aborted", async () => {
    const controller = new AbortController();
    const actor = ActorProcess.start("producer", part, {
      title: "p",
      signal: controller.signal,
      onSay: () => {},
    });
    const waiting = assert.rejects(actor.reached("published"), /enough/);
    controller.abort(new Error("enough"));
    await waiting;
    await actor.kill();
  });
});
