/** Descriptors whose close waits for somebody else: whatever a client sends, the hub goes on for all others. */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
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

function fuseSent(testHub: TestHub, moment: string): Promise<FuseSender> {
  const folder = testHub.folder.file(`fuse-${moment}`);
  mkdirSync(folder, { recursive: true });
  return FuseSender.start(folder, testHub.socket, moment);
}
