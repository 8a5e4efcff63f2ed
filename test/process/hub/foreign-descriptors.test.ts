/**
 * Descriptors whose calls block because of another process. Whatever a client sends, the hub goes
 * on for all others.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { lineAt, stateOf } from "../../../src/base/timeline-line.js";
import type { Hub } from "../../../src/client/hub.js";
import { libc } from "../../../src/ffi/libc.js";
import { createBell } from "../../../src/os/bell.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import {
  controlByteLength,
  control as controlWords,
  PAGE_BYTES,
  page as pageWords,
  writerStates,
} from "../../../src/ring/channel-layout.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { channelOf, hostArray, timelineDescriptor } from "../../support/messages.js";
import { RawClient } from "../../support/raw-client.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { EndlessWrite, FuseSender, skipFuse } from "../../support/waiting-fds.js";

const LINGERS = new URL("./actors/sends-lingering-sockets.js", import.meta.url);
const ROUNDS = 20;
const MFD_ALLOW_SEALING = 2;
const F_ADD_SEALS = 1033;
/** F_SEAL_SHRINK and F_SEAL_GROW. */
const SIZE_SEALS = 6;

/** Fails with TIMEOUT if the hub is blocked. */
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
  describe(`a descriptor whose close blocks, sent ${wordsFor(moment)}`, () => {
    checkLeaks();

    it("delays no other client if it is a TCP socket with unsent data", async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      await using _actor = await lingeringSent(testHub, moment);
      await bystander(hub);
    });

    it("delays no other client if it is a FUSE file whose server does not answer", {
      skip: skipFuse,
    }, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      await using _sender = await fuseSent(testHub, moment);
      await bystander(hub);
    });

    it("lets the hub end, and be killed", { skip: skipFuse }, async () => {
      for (const end of ["stop", "SIGKILL"] as const) {
        await using testHub = await TestHub.start();
        await using _actor = await lingeringSent(testHub, moment);
        await using _sender = await fuseSent(testHub, moment);
        await using hub = await testHub.connect();
        await bystander(hub);
        if (end === "stop") await hub.stop({ force: true });
        else testHub.kill(end);
        await testHub.exited();
      }
    });
  });
}

describe("memory with an endless write in progress", { skip: skipFuse }, () => {
  checkLeaks();

  const held = { op: "create", name: "held", lifetime: "held" } as const;

  it("delays no client when it is created, even if the hub refuses it", async () => {
    await using testHub = await TestHub.start();
    using client = await RawClient.connect(testHub.socket);
    await using hub = await testHub.connect();
    using memory = createMemoryFile("ours", 4096);
    using unsealed = new OwnedFd(libc().memfd_create("open to seals", MFD_ALLOW_SEALING));
    assert.equal(libc().ftruncate(unsealed.number, 4096), 0);
    assert.equal(libc().fcntl(unsealed.number, F_ADD_SEALS, SIZE_SEALS), 0);
    for (const fd of [memory, unsealed]) {
      await using _writer = await EndlessWrite.start(writerFolder(testHub), fd);
      for (const access of ["read", "read-write"]) {
        const sharing = { with: "all", access };
        const { ok, error } = await client.ask(
          { ...held, name: access, descriptor: hostArray, sharing },
          [fd],
        );
        assert.equal(ok ? "taken" : error?.code, fd === memory ? "taken" : "INVALID_DESCRIPTOR");
      }
      await bystander(hub);
    }
  });

  it("delays no client when its timeline's owner leaves, and ends all waits", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using memory = createMemoryFile("ours", 4096);
    using mapping = Mapping.shared(memory, 4096, "read");
    using client = await RawClient.connect(testHub.socket);
    assert.ok((await client.ask({ ...held, descriptor: timelineDescriptor }, [memory])).ok);
    await using _writer = await EndlessWrite.start(writerFolder(testHub), memory);
    assert.ok((await client.ask({ op: "bye" })).ok);
    const words = new BigInt64Array(mapping.view(0, 4096).buffer);
    await until("the timeline has ended", () => stateOf(lineAt(words, 128)).ended);
    await bystander(hub);
  });

  it("delays no client when a channel's reader or writer comes and leaves", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const descriptor = channelOf({ readersMax: 1 });
    using data = createMemoryFile("data", descriptor.allocationByteLength);
    using control = createMemoryFile("control", controlByteLength(descriptor.content));
    using page = createMemoryFile("page", PAGE_BYTES);
    using roomBell = createBell();
    using bell = createBell();
    using owner = await RawClient.connect(testHub.socket);
    const { result } = await owner.ask({ ...held, descriptor }, [
      data,
      control,
      roomBell,
      page,
      bell,
    ]);
    assert.ok((await owner.ask({ op: "publish", object: result?.object })).ok);
    await using _controlWriter = await EndlessWrite.start(writerFolder(testHub), control);
    await using _pageWriter = await EndlessWrite.start(writerFolder(testHub), page);
    using reader = await RawClient.connect(testHub.socket);
    const opened = await reader.ask({
      op: "open",
      name: "held",
      access: "read",
      wait: false,
      role: "reader",
    });
    const leaseOf = () =>
      readFileSync(`/proc/self/fd/${page.number}`).readBigInt64LE(pageWords.lease);
    assert.equal(leaseOf(), BigInt(opened.result?.lease as number));
    await bystander(hub);
    assert.ok((await reader.ask({ op: "bye" })).ok);
    await until("the reader's seat is free", () => leaseOf() === 0n);
    assert.ok((await owner.ask({ op: "bye" })).ok);
    const stateOfWriter = () =>
      readFileSync(`/proc/self/fd/${control.number}`).readInt32LE(controlWords.state);
    await until("the channel has no writer", () => stateOfWriter() === writerStates.gone);
    await bystander(hub);
  });
});

let writerFolders = 0;

function writerFolder(testHub: TestHub): string {
  const folder = testHub.folder.file(`writer-${writerFolders++}`);
  mkdirSync(folder);
  return folder;
}

describe("the gate of a hub", () => {
  checkLeaks();

  it("can be killed: clients repeat its requests, and the next gate serves them", async () => {
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

  it("refuses a user whose descriptors block its end until they are released", {
    skip: skipFuse,
  }, async () => {
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

/** The pid of the hub's gate, which is its last child process. */
function gateOf(testHub: TestHub): number {
  return Number(
    readFileSync(`/proc/${testHub.pid}/task/${testHub.pid}/children`, "utf8")
      .trim()
      .split(" ")
      .at(-1),
  );
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
