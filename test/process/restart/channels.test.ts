/**
 * Channels after a hub was killed. The next hub has their descriptors and seats, and ends them like
 * the first one.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { control, page, writerStates } from "../../../src/ring/channel-layout.js";
import { Actor } from "../../support/actor.js";
import { ChannelClient, hasRung, smallWord, word } from "../../support/channel-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";
import { HubRig } from "./hub-rig.js";

const HOLDS = new URL("../hub/actors/holds-channel.js", import.meta.url);

describe("channels of a hub that was killed", () => {
  checkLeaks();

  it("keep their seats at the next hub, which ends and wakes the right processes", async () => {
    await using rig = new HubRig();
    const first = await rig.serving();
    const { socket } = rig.folder;
    await using client = await ChannelClient.connect(socket);
    using channel = await client.create("c");
    await using reader = new Actor(HOLDS, { args: [socket, "c", "reader", "{}"] });
    const { lease } = (await reader.says()) as { lease: number };
    await using writer = new Actor(HOLDS, {
      args: [socket, "d", "create", '{"whenWriterGone":"wait"}'],
    });
    await writer.says();
    using other = await client.open("d", "reader", true);
    const before = await client.inspect("c");
    first.kill("SIGKILL");
    await first.exited();
    await rig.serving();
    await using hub = await rig.connect();
    // If a writer ends before it has restored its memory, its last state is lost.
    await until("all are back with their memory", async () => {
      const { detached, withoutMemory } = await hub.status();
      return detached === 0 && withoutMemory === 0;
    });
    assert.deepEqual(await client.inspect("c"), before);
    assert.equal(word(channel.page(0), page.lease), BigInt(lease));
    assert.equal(hasRung(other.bell()), false);
    reader.kill("SIGKILL");
    await until("the seat is free", () => word(channel.page(0), page.lease) === 0n);
    await until("the writer is woken", () => hasRung(channel.roomBell));
    using next = await client.open("c", "reader");
    assert.equal(next.seat, 0);
    writer.kill("SIGKILL");
    await until(
      "it is awaited",
      () => smallWord(other.control, control.state) === writerStates.awaited,
    );
    using resumed = await client.open("d", "writer");
    assert.equal(resumed.fds.length, 7);
  });
});
