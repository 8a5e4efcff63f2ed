import assert from "node:assert/strict";
import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { HubServer } from "../../../src/hub/server/hub-server.js";
import { pidOfListener } from "../../../src/hub/server/hub-start.js";
import { PacketChannel, type PacketHandler } from "../../../src/os/packet-channel.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient } from "../../support/raw-client.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const JOINS = new URL("./actors/joins.js", import.meta.url);

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Starts another hub, leaves it, and waits until it has ended. */
async function idleHubEnds(hubIdleMs: number): Promise<void> {
  await using folder = new TestFolder();
  const hub = await connect({ socket: folder.socket, device: "host", hubIdleMs });
  const { pid } = await hub.status();
  await hub.close();
  await until("the other hub ends", () => !runs(pid));
}

describe("connect", () => {
  checkLeaks();

  it("starts exactly one hub when ten processes join at once", async () => {
    await using folder = new TestFolder();
    const actors = Array.from(
      { length: 10 },
      () => new Actor(JOINS, { args: [folder.socket, "60000"] }),
    );
    try {
      await Promise.all(actors.map((actor) => actor.says()));
      for (const actor of actors) actor.goOn();
      const hubs = (await Promise.all(actors.map((actor) => actor.says()))) as {
        pid: number;
        instance: string;
      }[];
      assert.deepEqual([...new Set(hubs.map(({ instance }) => instance))], [hubs[0]?.instance]);
      for (const actor of actors) actor.goOn();
      assert.deepEqual(
        await Promise.all(actors.map((actor) => actor.exited())),
        new Array(10).fill(0),
      );
      assert.ok(runs(hubs[0]?.pid ?? 0), "the hub outlives those who joined");
    } finally {
      await Promise.all(actors.map((actor) => actor[Symbol.asyncDispose]()));
    }
  });

  it("starts a hub that outlives the process that started it, killed or not", async () => {
    await using folder = new TestFolder();
    await using actor = new Actor(JOINS, { args: [folder.socket, "60000"] });
    await actor.says();
    actor.goOn();
    const { pid } = (await actor.says()) as { pid: number };
    actor.kill("SIGKILL");
    await actor.exited();
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    assert.equal((await hub.status()).pid, pid);
  });

  it("throws HUB_UNAVAILABLE if no hub runs and it may not start one", async () => {
    using folder = new TestFolder();
    for (const socket of [folder.socket, folder.file("none/hub.sock")]) {
      await assert.rejects(connect({ socket, start: false }), (error) =>
        hasCode(error, "HUB_UNAVAILABLE"),
      );
    }
    assert.equal(existsSync(folder.file("none")), false);
  });

  it("repeats the hub's reason if it could not start one", async () => {
    using folder = new TestFolder();
    writeFileSync(folder.socket, "a file in the socket's place");
    await assert.rejects(
      connect({ socket: folder.socket }),
      (error) => hasCode(error, "HUB_UNAVAILABLE") && /not a socket/.test(error.message),
    );
    assert.ok(existsSync(folder.socket));
  });

  it("times out on a hub that does not answer, and leaves nothing behind", async () => {
    await using testHub = await TestHub.start();
    testHub.kill("SIGSTOP");
    await assert.rejects(testHub.connect({ timeoutMs: 50 }), (error) => hasCode(error, "TIMEOUT"));
    await assert.rejects(testHub.connect({ signal: AbortSignal.abort() }), (error) =>
      hasCode(error, "ABORTED"),
    );
    testHub.kill("SIGCONT");
    await using hub = await testHub.connect();
    await until(
      "the hub has forgotten the clients that gave up",
      async () => (await hub.status()).clients === 1,
    );
  });

  it("names the version of a hub of another version", async () => {
    using folder = new TestFolder();
    const listener = SeqpacketListener.listen(folder.socket);
    const connecting = connect({ socket: folder.socket, start: false });
    const socket = listener.tryAccept();
    assert.ok(socket !== undefined);
    const handler: PacketHandler = {
      onPacket: () =>
        channel.send(Buffer.from('{"v":2,"id":1,"ok":true,"result":{"new":"things"}}')),
      onEnd: () => {},
    };
    const channel = new PacketChannel(socket, handler);
    await assert.rejects(
      connecting,
      (error) => hasCode(error, "PROTOCOL_MISMATCH") && /version 2.*version 1/.test(error.message),
    );
    channel.close();
    listener.close();
  });
});

describe("a hub", () => {
  checkLeaks();

  it("refuses a client of another version with both versions, and hangs up", async () => {
    await using testHub = await TestHub.start();
    using client = await RawClient.connect(testHub.socket, false);
    client.sendText('{"v":2,"id":4,"op":"hello","client":{"version":"2","program":"new"}}');
    client.sendText('{"v":2,"id":5,"op":"status"}');
    const reply = await client.reply();
    assert.ok(reply !== "end");
    assert.deepEqual([reply.id, reply.error?.code], [4, "PROTOCOL_MISMATCH"]);
    assert.equal(await client.reply(), "end");
  });

  it("ends when it is idle, and removes its socket", async () => {
    await using testHub = await TestHub.start({ idleMs: 0 });
    const hub = await testHub.connect().catch(() => undefined);
    await hub?.close();
    await testHub.exited();
    assert.equal(existsSync(testHub.socket), false);
  });

  it("stays for a pinned object without holders, until the object is removed", async () => {
    await using folder = new TestFolder();
    const { socket } = folder;
    const hub = await connect({ socket, device: "host", hubIdleMs: 200 });
    const { pid } = await hub.status();
    const array = await hub.create("frame", { dtype: "int32", shape: [3], lifetime: "pinned" });
    await array.write([1, 2, 3]);
    await array.publish();
    await hub.close();
    // In the time in which two hubs without an object end, a hub that wrongly ends has ended, too.
    for (let count = 0; count < 2; count += 1) await idleHubEnds(200);
    assert.ok(runs(pid));
    const next = await connect({ socket, start: false, device: "host" });
    assert.equal((await next.status()).pid, pid);
    await next.remove("frame");
    await next.close();
    await until("the hub ends", () => !runs(pid));
  });

  it("refuses to start while another one runs", async () => {
    await using testHub = await TestHub.start();
    assert.throws(
      () => HubServer.start({ socket: testHub.socket }),
      (error) => hasCode(error, "HUB_RUNNING"),
    );
    await using hub = await testHub.connect();
    assert.equal((await hub.status()).pid, testHub.pid);
  });

  it("says farewell and ends when it is stopped", async () => {
    await using testHub = await TestHub.start();
    const hub = await testHub.connect();
    const other = await testHub.connect();
    await assert.rejects(hub.stop(), (error) => hasCode(error, "HUB_IN_USE"));
    const told = new Promise((resolve) => other.onEnd(resolve));
    await hub.stop({ force: true });
    assert.ok(hasCode(await told, "HUB_GONE"));
    await testHub.exited();
    await Promise.all([hub.close(), other.close()]);
    assert.equal(existsSync(testHub.socket), false);
  });

  it("ends on SIGTERM and removes its socket", async () => {
    await using testHub = await TestHub.start();
    testHub.kill("SIGTERM");
    await testHub.exited();
    assert.equal(existsSync(testHub.socket), false);
  });

  it("ends cleanly if its socket was removed, and leaves another hub's socket alone", async () => {
    using folder = new TestFolder();
    const gone = HubServer.start({ socket: folder.socket });
    unlinkSync(folder.socket);
    gone.stop();
    await gone.ended;
    const replaced = HubServer.start({ socket: folder.socket });
    unlinkSync(folder.socket);
    unlinkSync(`${folder.socket}.lock`);
    unlinkSync(`${folder.socket}.journal`);
    const next = HubServer.start({ socket: folder.socket });
    replaced.stop();
    await replaced.ended;
    assert.ok(existsSync(folder.socket));
    next.stop();
    await next.ended;
    assert.equal(existsSync(folder.socket), false);
  });

  it("goes on if its starter ends before it reads that the hub listens", async () => {
    await using folder = new TestFolder();
    await using actor = new Actor(new URL("./actors/starts-and-dies.js", import.meta.url), {
      args: [folder.socket],
    });
    const pid = (await actor.says()) as number;
    await actor.exited();
    await until("the hub listens", () => pidOfListener(folder.socket) !== undefined);
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    assert.equal((await hub.status()).pid, pid);
  });
});
