/**
 * Each kind of descriptor with each operation: the hub refuses it with a code or ignores it. It
 * delays no client and keeps no descriptor.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { channelFiles } from "../../support/channel-client.js";
import {
  channelOf,
  gpuArray,
  hostArray,
  hostBundle,
  timelineDescriptor,
} from "../../support/messages.js";
import { RawClient, type RawReply } from "../../support/raw-client.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { kinds } from "./descriptor-samples.js";

const INDEX_BYTES = 100;

/** The other descriptors that a request needs. */
class Companions {
  readonly memory = createMemoryFile("companion", 4096);
  readonly index = createConstantFile("companion", Buffer.alloc(INDEX_BYTES, " "));
  readonly channel = channelFiles(channel.content);

  close(): void {
    for (const fd of [this.memory, this.index, ...this.channel]) fd.close();
  }
}

interface Asked {
  readonly fields: Record<string, unknown>;
  readonly fds: readonly OwnedFd[];
}

type Ask = (fd: OwnedFd, companions: Companions, client: RawClient) => Asked | Promise<Asked>;

const channel = channelOf({ readersMax: 1 });
const pooled = {
  ...gpuArray,
  mechanism: "pool",
  pooled: {
    pool: "01234567-89ab-4def-8123-456789abcdef",
    maxBytes: 65_536,
    data: `${"A".repeat(86)}==`,
  },
};

function creating(
  descriptor: object,
  fdsOf: (fd: OwnedFd, companions: Companions) => readonly OwnedFd[],
): Ask {
  return (fd, companions) => {
    const fields = {
      op: "create",
      name: `odd-${crypto.randomUUID()}`,
      lifetime: "held",
      descriptor,
    };
    return { fields, fds: fdsOf(fd, companions) };
  };
}

function ofChannel(index: number): Ask {
  return creating(channel, (fd, companions) => companions.channel.with(index, fd));
}

async function restoring(fd: OwnedFd, companions: Companions, client: RawClient): Promise<Asked> {
  const fields = {
    op: "create",
    name: `held-${crypto.randomUUID()}`,
    lifetime: "held",
    descriptor: hostArray,
  };
  const { result } = await client.ask(fields, [companions.memory]);
  return { fields: { op: "restore", lease: result?.lease }, fds: [fd] };
}

const operations: Readonly<Record<string, Ask>> = {
  "an array": creating(hostArray, (fd) => [fd]),
  "an array of a GPU": creating(gpuArray, (fd) => [fd]),
  "an array of a pool": creating(pooled, (fd) => [fd]),
  "a timeline": creating(timelineDescriptor, (fd) => [fd]),
  "the memory of a bundle": creating(hostBundle(1, INDEX_BYTES), (fd, { index }) => [fd, index]),
  "the index of a bundle": creating(hostBundle(1, INDEX_BYTES), (fd, companions) => [
    companions.memory,
    fd,
  ]),
  "the slots of a channel": ofChannel(0),
  "the control file of a channel": ofChannel(1),
  "the room bell of a channel": ofChannel(2),
  "the page of a reader": ofChannel(3),
  "the bell of a reader": ofChannel(4),
  "memory that is brought back": restoring,
  "what no operation asked for": (fd) => ({ fields: { op: "status" }, fds: [fd] }),
};

const HELLO = '{"v":1,"id":1,"op":"hello","client":{"version":"0","program":"kinds"}}';

/** Sends it before hello. The kernel may refuse that. */
async function greetWith(
  socket: string,
  fd: OwnedFd,
): Promise<RawReply | "end" | "refused by the kernel"> {
  using client = await RawClient.connect(socket, false);
  try {
    client.sendText(HELLO, [fd]);
  } catch (error) {
    if (hasCode(error, "PERMISSION_DENIED")) return "refused by the kernel";
    throw error;
  }
  return await client.reply();
}

describe("a descriptor of any kind, sent with any operation", () => {
  let testHub: TestHub;
  let other: Hub;
  let companions: Companions;
  let fdsBefore: number;

  before(async () => {
    testHub = await TestHub.start();
    other = await testHub.connect();
    companions = new Companions();
    fdsBefore = testHub.fdCount();
  });
  after(async () => {
    companions.close();
    await other.close();
    await testHub[Symbol.asyncDispose]();
  });

  /** Fails with TIMEOUT if the hub is blocked. */
  async function checkServed(): Promise<void> {
    const options = { timeoutMs: 10_000 };
    using made = await other.create("bystander", { dtype: "int32", shape: [4], ...options });
    await made.publish(options);
    using opened = await other.open("bystander", options);
    assert.equal(opened.elementCount, 4);
  }

  async function check(operation: string, fd: OwnedFd, fits: RegExp | undefined): Promise<void> {
    using client = await RawClient.connect(testHub.socket);
    const { fields, fds } = await (operations[operation] as Ask)(fd, companions, client);
    client.send(fields, fds);
    await checkServed();
    const reply = await client.reply();
    assert.ok(reply !== "end", operation);
    const outcome = reply.ok ? "taken" : reply.error?.code;
    if (fits?.test(operation)) assert.equal(outcome, "taken", operation);
    else assert.match(String(outcome), /^INVALID_(DESCRIPTOR|MESSAGE)$/, operation);
    assert.ok((await client.ask({ op: "bye" })).ok, operation);
  }

  for (const [kind, { open, fits, skip = false }] of Object.entries(kinds)) {
    it(`does no harm: ${kind}`, { skip, timeout: 60_000 }, async () => {
      using folder = new TestFolder();
      const source = await open(folder);
      try {
        const first = source.next();
        const greeted = await greetWith(testHub.socket, first);
        if (greeted !== "refused by the kernel") source.sent(first);
        if (typeof greeted === "object") assert.equal(greeted.ok, false);
        await checkServed();
        for (const operation of Object.keys(operations)) {
          const fd = source.next();
          await check(operation, fd, fits);
          source.sent(fd);
        }
        await until("the hub has none of them", () => testHub.fdCount() === fdsBefore);
      } finally {
        await source.close();
      }
    });
  }

  it("leaves one gate in the end, and the same hub", async () => {
    await until("one gate is left", () => gatesOf(testHub).length === 1);
    await checkServed();
    const { pid, clients, objects, leases } = await other.status();
    assert.deepEqual([pid, clients, objects, leases], [testHub.pid, 1, 0, 0]);
    await until("the hub has no descriptors left over", () => testHub.fdCount() === fdsBefore);
  });
});

function gatesOf({ pid }: TestHub): string[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return children.filter((child) => {
    try {
      return readFileSync(`/proc/${child}/cmdline`, "utf8").includes("gate-main");
    } catch {
      // It has ended.
      return false;
    }
  });
}
