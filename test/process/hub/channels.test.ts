/**
 * Channels on a real hub: seats that readers take and leave, and writers that end in different
 * ways.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { inspectMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { control, page, readerStates, writerStates } from "../../../src/ring/channel-layout.js";
import { Actor } from "../../support/actor.js";
import {
  ChannelClient,
  type HeldChannel,
  hasRung,
  smallWord,
  word,
  writeSmallWord,
  writeWord,
} from "../../support/channel-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient } from "../../support/raw-client.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const HOLDS = new URL("./actors/holds-channel.js", import.meta.url);
const POISON = 2n ** 63n - 1n;

interface Said {
  readonly lease: number;
  readonly place: number | null;
}

async function holding(testHub: TestHub, as: string, changes: object = {}): Promise<[Actor, Said]> {
  const actor = new Actor(HOLDS, { args: [testHub.socket, "c", as, JSON.stringify(changes)] });
  return [actor, (await actor.says()) as Said];
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

/** The words of a page: its lease, the reader's state, and the end of the reader's timeline. */
function pageOf(file: OwnedFd): unknown[] {
  return [
    word(file, page.lease),
    smallWord(file, page.state),
    word(file, page.done),
    word(file, page.done + 8),
  ];
}

/** The writer's state, and the timeline of the first writer, which had finished 7. */
function writerOf(channel: HeldChannel): unknown[] {
  const ready = [
    word(channel.control, control.ready + 64),
    word(channel.control, control.ready + 72),
  ];
  return [smallWord(channel.control, control.state), ...ready];
}

async function holders(client: ChannelClient): Promise<unknown[]> {
  return (await client.inspect("c")).holders.map(({ role, place = null }) => [role, place]);
}

const code = (wanted: Parameters<typeof hasCode>[1]) => (error: unknown) => hasCode(error, wanted);

describe("a reader of a channel", () => {
  checkLeaks();

  for (const end of ["is killed", "closes it"] as const) {
    it(`keeps its seat until it ${end}. Then the writer wakes and the seat is free`, async () => {
      await using testHub = await TestHub.start();
      await using client = await ChannelClient.connect(testHub.socket);
      using channel = await client.create("c");
      const [actor, { lease, place }] = await holding(testHub, "reader");
      await using _ = actor;
      assert.equal(place, 0);
      assert.deepEqual(pageOf(channel.page(0)), [BigInt(lease), readerStates.attached, 5n, 0n]);
      using second = await client.open("c", "reader");
      assert.equal(second.seat, 1);
      await assert.rejects(client.open("c", "reader"), code("READERS_FULL"));
      assert.equal(hasRung(channel.roomBell), false);
      if (end === "is killed") await kill(actor);
      else actor.goOn();
      await until("its seat is free", async () => (await holders(client)).length === 2);
      assert.deepEqual(pageOf(channel.page(0)), [0n, readerStates.none, POISON, 5n]);
      assert.deepEqual([hasRung(channel.roomBell), hasRung(channel.bell(1))], [true, false]);
      assert.equal(word(second.page(), page.lease), BigInt(second.lease));
      using third = await client.open("c", "reader");
      assert.equal(third.seat, 0);
    });
  }

  it("gets the shared parts read-only, and its own page writable", async () => {
    await using testHub = await TestHub.start();
    await using client = await ChannelClient.connect(testHub.socket);
    using channel = await client.create("c");
    using reader = await client.open("c", "reader");
    const isWritable = (fd: OwnedFd | undefined) =>
      fd !== undefined && inspectMemoryFile(fd).writable;
    assert.deepEqual(
      [0, 1, 3].map((index) => isWritable(reader.fds[index])),
      [false, false, true],
    );
    using observer = await client.open("c", "observer");
    assert.deepEqual(
      [0, 1, 2].map((index) => isWritable(observer.fds[index])),
      [false, false, false],
    );
    writeWord(reader.page(), page.released, 3n);
    assert.deepEqual(
      [word(channel.page(0), page.released), word(observer.page(0), page.released)],
      [3n, 3n],
    );
    assert.deepEqual(await holders(client), [
      ["writer", null],
      ["reader", 0],
      ["observer", null],
    ]);
  });

  it("keeps its seat if its connection ends but its process lives", async () => {
    await using testHub = await TestHub.start();
    await using client = await ChannelClient.connect(testHub.socket);
    using channel = await client.create("c");
    const raw = await RawClient.connect(testHub.socket);
    const { result } = await raw.ask({
      op: "open",
      name: "c",
      access: "read",
      wait: false,
      role: "reader",
    });
    assert.equal(result?.place, 0);
    writeSmallWord(channel.page(0), page.state, readerStates.attached);
    raw.socket.close();
    await until("the hub has noticed", async () => {
      using other = await RawClient.connect(testHub.socket);
      return (await other.ask({ op: "status" })).result?.detached === 1;
    });
    assert.deepEqual(pageOf(channel.page(0)).slice(0, 2), [
      BigInt(result?.lease as number),
      readerStates.attached,
    ]);
    assert.equal(hasRung(channel.roomBell), false);
    using second = await client.open("c", "reader");
    assert.equal(second.seat, 1);
  });
});

describe("the writer of a channel", () => {
  checkLeaks();

  it("removes the name when it is killed, and readers notice its death", async () => {
    await using testHub = await TestHub.start();
    const [actor] = await holding(testHub, "create");
    await using _ = actor;
    await using client = await ChannelClient.connect(testHub.socket);
    using reader = await client.open("c", "reader", true);
    assert.deepEqual(
      [writerOf(reader), hasRung(reader.bell())],
      [[writerStates.open, 7n, 0n], false],
    );
    await assert.rejects(client.open("c", "writer"), code("IN_USE"));
    await kill(actor);
    await until("the name is gone", async () => (await client.list()).length === 0);
    await until("the reader is woken", () => hasRung(reader.bell()));
    assert.deepEqual(writerOf(reader), [writerStates.gone, POISON, 7n]);
    await assert.rejects(client.open("c", "reader"), code("NOT_FOUND"));
  });

  it("is followed by another if the channel waits, and readers keep their seats", async () => {
    await using testHub = await TestHub.start();
    const [actor] = await holding(testHub, "create", { whenWriterGone: "wait" });
    await using _ = actor;
    await using client = await ChannelClient.connect(testHub.socket);
    using reader = await client.open("c", "reader", true);
    await kill(actor);
    await until("the reader is woken", () => hasRung(reader.bell()));
    assert.deepEqual(writerOf(reader), [writerStates.awaited, POISON, 7n]);
    using next = await client.open("c", "writer");
    assert.equal(next.fds.length, 7);
    assert.deepEqual(pageOf(next.page(0)).slice(0, 1), [BigInt(reader.lease)]);
    writeSmallWord(next.control, control.epoch, 2);
    writeSmallWord(next.control, control.state, writerStates.open);
    assert.equal(smallWord(reader.control, control.state), writerStates.open);
    next.close();
    await until(
      "it is awaited again",
      () => smallWord(reader.control, control.state) === writerStates.awaited,
    );
    assert.deepEqual(await holders(client), [["reader", 0]]);
  });

  it("is not awaited if it closed the channel", async () => {
    await using testHub = await TestHub.start();
    const [actor] = await holding(testHub, "create", { whenWriterGone: "wait" });
    await using _ = actor;
    await using client = await ChannelClient.connect(testHub.socket);
    using reader = await client.open("c", "reader", true);
    actor.goOn("close");
    await until("the name is gone", async () => (await client.list()).length === 0);
    assert.deepEqual(writerOf(reader), [writerStates.closed, POISON, 7n]);
  });
});

describe("a channel whose hub is killed", () => {
  checkLeaks();

  /** Kills the hub and perhaps `other`. Waits until the clients are at the next hub. */
  async function restart(
    testHub: TestHub,
    clients: readonly ChannelClient[],
    other?: Actor,
  ): Promise<void> {
    const back = clients.map((client) => client.reconnected());
    testHub.kill("SIGKILL");
    other?.kill("SIGKILL");
    for (const event of await Promise.all(back)) assert.deepEqual(event, { resumed: true });
  }

  it("is unchanged at the next one, which frees seats like the first", async () => {
    await using testHub = await TestHub.start();
    await using owner = await ChannelClient.connect(testHub.socket, true);
    await using client = await ChannelClient.connect(testHub.socket);
    using channel = await owner.create("c");
    const [actor, { lease }] = await holding(testHub, "reader");
    await using _ = actor;
    using observer = await client.open("c", "observer");
    const before = await client.inspect("c");
    await restart(testHub, [owner, client]);
    await until("all are back", async () => (await client.inspect("c")).object.hasMemory);
    assert.deepEqual(await client.inspect("c"), before);
    assert.deepEqual(pageOf(channel.page(0)), [BigInt(lease), readerStates.attached, 5n, 0n]);
    using second = await client.open("c", "reader");
    assert.equal(second.seat, 1);
    await kill(actor);
    await until("its seat is free", () => word(observer.page(0), page.lease) === 0n);
    using third = await client.open("c", "reader");
    assert.equal(third.seat, 0);
  });

  for (const [whenWriterGone, state] of [
    ["end", writerStates.gone],
    ["wait", writerStates.awaited],
  ] as const) {
    it(`follows whenWriterGone "${whenWriterGone}" if its writer died, too`, async () => {
      await using testHub = await TestHub.start();
      const [actor] = await holding(testHub, "create", { whenWriterGone });
      await using _ = actor;
      await using client = await ChannelClient.connect(testHub.socket, true);
      using reader = await client.open("c", "reader", true);
      using second = await client.open("c", "reader");
      await restart(testHub, [client], actor);
      await until(
        "all readers see the new state",
        () => smallWord(reader.control, control.state) === state,
      );
      assert.deepEqual(writerOf(reader), [state, POISON, 7n]);
      await until("both are woken", () => hasRung(reader.bell()));
      await until("both are woken", () => hasRung(second.bell()));
      const names = whenWriterGone === "end" ? 0 : 1;
      await until(
        "the name is gone or kept, as asked for",
        async () => (await client.list()).length === names,
      );
    });
  }

  it("frees the seat of a reader that died with the hub when the writer is back", async () => {
    await using testHub = await TestHub.start();
    await using owner = await ChannelClient.connect(testHub.socket, true);
    using channel = await owner.create("c");
    const [actor] = await holding(testHub, "reader");
    await using _ = actor;
    await restart(testHub, [owner], actor);
    await until("its seat is free", () => word(channel.page(0), page.lease) === 0n);
    await until("the writer is woken", () => hasRung(channel.roomBell));
    assert.deepEqual(pageOf(channel.page(0)), [0n, readerStates.none, POISON, 5n]);
  });
});
