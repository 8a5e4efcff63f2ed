import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient, type RawReply } from "../../support/raw-client.js";
import { soon, until } from "../../support/until.js";
import { TakeoverRig } from "./takeover-rig.js";

describe("a hub that takes over", () => {
  checkLeaks();

  it("has the names, the leases, the data and those who wait, and nothing else", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const hub = await rig.connect();
    const other = await rig.connect();
    const fds = rig.fdsOf(first);
    const made = (await hub.create("frame", { dtype: "int32", shape: [3] })).as("int32");
    await made.write([1, 2, 3]);
    await made.publish();
    using opened = (await other.open("frame", { access: "read-write" })).as("int32");
    const later = await hub.create("later", { dtype: "int32", shape: [1] });
    const waiting = other.open("later");
    await until("it waits", async () => (await hub.status()).waitingOpens === 1);
    const before = await hub.status();
    const held = rig.fdsOf(first);

    const second = await rig.successorOf(first);
    const after = await hub.status();
    assert.equal(after.pid, second.pid);
    assert.notEqual(after.instance, before.instance);
    const counts = ({ clients, objects, leases, waitingOpens, hostBytes, withoutMemory }: typeof before) =>
      JSON.stringify({ clients, objects, leases, waitingOpens, hostBytes, withoutMemory });
    assert.equal(counts(after), counts(before));
    await until("it holds as many descriptors as the first", () => rig.fdsOf(second) === held);

    await later.publish();
    (await soon("the wait is over", waiting)).close();
    using again = (await other.open("frame", { wait: false })).as("int32");
    await opened.write([4, 5, 6]);
    assert.deepEqual([...(await again.read())], [4, 5, 6]);
    again.close();
    opened.close();
    made.close();
    later.close();
    assert.deepEqual(await hub.list(), []);
    await until("its descriptors are closed", () => rig.fdsOf(second) === fds);
    await Promise.all([hub.close(), other.close()]);
  });

  it("knows the clients by their processes: their ends are noticed, and pinned objects stay", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const hub = await rig.connect();
    const pinned = (await hub.create("pinned", { dtype: "int32", shape: [2], lifetime: "pinned" })).as("int32");
    await pinned.write([7, 8]);
    await pinned.publish();
    await hub.close();
    using raw = await RawClient.connect(rig.folder.socket);
    const second = await rig.successorOf(first);
    const third = await rig.successorOf(second);
    const next = await rig.connect();
    assert.equal((await next.status()).clients, 2);
    raw.socket.close();
    await until("its end is noticed", async () => (await next.status()).clients === 1);
    using opened = (await next.open("pinned", { wait: false })).as("int32");
    assert.deepEqual([...(await opened.read())], [7, 8]);
    assert.equal((await next.status()).pid, third.pid);
    opened.close();
    await next.close();
  });

  it("sends what a slow client has not read yet, in order and with its descriptors, and takes what it had said meanwhile", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const hub = await rig.connect();
    const made = await hub.create("frame", { dtype: "uint8", shape: [100] });
    await made.publish();
    using raw = await RawClient.connect(rig.folder.socket);
    const count = 600;
    for (let index = 0; index < count; index += 1) {
      await until("there is room", () => trySend(raw, { op: "open", name: "frame", access: "read", wait: false }));
    }
    // More than a socket takes, so that the hub does not read either for the moment.
    await until("replies with descriptors wait in the hub", () => rig.fdsOf(first) > 200);
    const queued = rig.fdsOf(first);
    const second = await rig.successorOf(first);
    await until("there is room", () => trySend(raw, { op: "status" }));
    await until("the replies wait there too", () => rig.fdsOf(second) >= queued);
    const replies: RawReply[] = [];
    for (let index = 0; index <= count; index += 1) {
      const reply = await raw.reply();
      assert.ok(reply !== "end");
      replies.push(reply);
    }
    assert.ok(replies.every(({ ok }) => ok));
    const leases = replies.slice(0, count).map(({ result }) => Number(result?.lease));
    assert.deepEqual(
      leases,
      [...leases].sort((one, other) => one - other),
    );
    assert.equal(new Set(leases).size, count);
    assert.equal(replies[count]?.result?.pid, second.pid);
    raw.socket.close();
    made.close();
    await hub.close();
  });

  it("starts where none runs, and follows one that was killed", async () => {
    await using rig = new TakeoverRig();
    const first = rig.hub();
    assert.deepEqual(await first.says(), {});
    first.kill("SIGKILL");
    await first.exited();
    const second = rig.hub();
    assert.deepEqual(await second.says(), {});
    await using hub = await rig.connect();
    assert.equal((await hub.status()).pid, second.pid);
  });

  it("takes its turn where several want to", async () => {
    await using rig = new TakeoverRig();
    await rig.serving();
    const hub = await rig.connect();
    const made = await hub.create("frame", { dtype: "uint8", shape: [1] });
    await made.publish();
    const all = Array.from({ length: 4 }, () => rig.hub());
    const said = await Promise.all(all.map((actor) => actor.says()));
    for (const one of said as { code?: string; predecessor?: object }[]) {
      assert.ok(one.code === "HUB_IN_USE" || one.predecessor !== undefined, JSON.stringify(one));
    }
    const { pid, objects } = await hub.status();
    assert.ok(all.some((actor) => actor.pid === pid));
    assert.equal(objects, 1);
    made.close();
    await hub.close();
  });

  it("ends for good when it is stopped, as if it had been the first", async () => {
    await using rig = new TakeoverRig();
    const second = await rig.successorOf(await rig.serving());
    const hub = await rig.connect();
    await hub.stop({ force: true });
    assert.equal(await second.exited(), 0);
    await hub.close().catch(() => {});
    assert.equal(existsSync(rig.folder.socket), false);
    assert.equal(existsSync(`${rig.folder.socket}.journal`), false);
    await assert.rejects(connect({ socket: rig.folder.socket, start: false }), (error) =>
      hasCode(error, "HUB_UNAVAILABLE"),
    );
  });
});

/** False where the hub does not read for the moment. */
function trySend(client: RawClient, fields: Record<string, unknown>): boolean {
  try {
    client.send(fields);
    return true;
  } catch {
    return false;
  }
}
