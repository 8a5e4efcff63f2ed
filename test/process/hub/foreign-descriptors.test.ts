/** Descriptors whose close waits for somebody else: whatever a client sends, the hub goes on for all others. */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { FuseSender, skipFuse } from "../../support/waiting-fds.js";

const LINGERS = new URL("./actors/sends-lingering-sockets.js", import.meta.url);
const ROUNDS = 20;

/** Fails with TIMEOUT if the hub stands still. */
async function bystander(hub: Hub): Promise<void> {
  const options = { timeoutMs: 10_000 };
  for (let round = 0; round < ROUNDS; round += 1) {
    using made = await hub.create(`bystander-${round}`, { dtype: "int32", shape: [4], ...options });
    await made.publish();
    using opened = await hub.open(`bystander-${round}`, options);
    assert.equal(opened.elementCount, 4);
  }
}

for (const moment of ["hello", "create", "unread"] as const) {
  describe(`a descriptor whose close waits, sent ${wordsFor(moment)}`, () => {
    checkLeaks();

    it("holds up nobody else if it is a TCP socket with unsent data", async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      await using _actor = await lingeringSent(testHub, moment);
      await bystander(hub);
    });

    it("holds up nobody else if it is a file of FUSE whose server does not answer", { skip: skipFuse }, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      await using _sender = await fuseSent(testHub, moment);
      await bystander(hub);
    });

    it("lets the hub end, and be killed", { skip: skipFuse }, async () => {
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        await using testHub = await TestHub.start();
        await using _actor = await lingeringSent(testHub, moment);
        await using _sender = await fuseSent(testHub, moment);
        await using hub = await testHub.connect();
        await bystander(hub);
        testHub.kill(signal);
        await testHub.exited();
      }
    });
  });
}

describe("the gate of a hub", () => {
  checkLeaks();

  it("can be killed: requests that it had are repeated, and the next one serves", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await bystander(hub);
    for (let round = 0; round < 5; round += 1) {
      process.kill(gateOf(testHub), "SIGKILL");
      using made = await hub.create(`after-${round}`, { dtype: "int32", shape: [1] });
      await made.publish();
    }
    await bystander(hub);
  });

  it("takes no more from a user whose descriptors hold up its end, until they let go", { skip: skipFuse }, async () => {
    await using testHub = await TestHub.start();
    {
      await using _sender = await fuseSent(testHub, "create", limits.unclosableFdsPerUserMax);
      await until("the user is refused", async () => {
        try {
          await (await testHub.connect()).close();
          return false;
        } catch (error) {
          return hasCode(error, "LIMIT_EXCEEDED");
        }
      });
    }
    await until("the user is served again", async () => {
      const hub = await testHub.connect().catch(() => undefined);
      await hub?.close();
      return hub !== undefined;
    });
    await using hub = await testHub.connect();
    await bystander(hub);
  });
});

/** The process number of the only child that a hub of a test has. */
function gateOf(testHub: TestHub): number {
  return Number(readFileSync(`/proc/${testHub.pid}/task/${testHub.pid}/children`, "utf8").trim().split(" ").at(-1));
}

function wordsFor(moment: "hello" | "create" | "unread"): string {
  if (moment === "hello") return "before anything else";
  return moment === "create" ? "as memory" : "after the hub was told goodbye";
}

async function lingeringSent(testHub: TestHub, moment: string): Promise<Actor> {
  const actor = new Actor(LINGERS, { args: [testHub.socket, moment] });
  const { sent, refused } = (await actor.says()) as { sent: number; refused: number };
  assert.ok(sent + refused > 0);
  return actor;
}

function fuseSent(testHub: TestHub, moment: string, copies = 1): Promise<FuseSender> {
  const folder = testHub.folder.file(`fuse-${moment}`);
  mkdirSync(folder, { recursive: true });
  return FuseSender.start(folder, testHub.socket, moment, copies);
}
