import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { PacketChannel } from "../../../../src/os/packet-channel.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { join, linkRig, reconnected } from "../../../support/link-rig.js";
import { obliging, type Script } from "../../../support/scripted-hub.js";
import { soon, until } from "../../../support/until.js";

const code = (wanted: Parameters<typeof hasCode>[1]) => (error: unknown) => hasCode(error, wanted);
const ITEM = { dtype: "uint8", shape: [4] } as const;

describe("a listener", () => {
  checkLeaks();

  it("is called until it is removed", async () => {
    using r = linkRig();
    await using hub = await join(r, { reconnect: true });
    const told: string[] = [];
    const offReconnect = hub.onReconnect(() => told.push("once"));
    hub.onReconnect(() => told.push("always"));
    const offEnd = hub.onEnd(() => told.push("end"));
    const first = reconnected(hub);
    r.scripted.latest.hangUp();
    await first;
    offReconnect();
    offEnd();
    const second = reconnected(hub);
    r.scripted.latest.hangUp();
    await second;
    assert.deepEqual(told, ["once", "always", "always"]);
  });

  it("of the end is called although the one before it throws", async (t) => {
    using r = linkRig();
    await using hub = await join(r, { reconnect: false });
    const mistake = new Error("a listener failed");
    const thrown = new Promise((resolve) => {
      const listeners = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.once("uncaughtException", resolve);
      t.after(() => {
        for (const listener of listeners) process.on("uncaughtException", listener);
      });
    });
    hub.onEnd(() => {
      throw mistake;
    });
    const ended = soon("it ends", new Promise((resolve) => hub.onEnd(resolve)));
    r.scripted.latest.hangUp();
    await ended;
    assert.equal(await soon("it is thrown", thrown), mistake);
  });

  it("of the end is called, once, although the end came before it", async () => {
    using r = linkRig();
    await using hub = await join(r, { reconnect: false });
    let early = 0;
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    hub.onEnd(() => {
      early += 1;
    });
    r.scripted.latest.hangUp();
    const reason = await soon("it ends", ended);
    const off = hub.onEnd(() => assert.fail("told after it was removed"));
    off();
    const told = await soon("it is told", new Promise((resolve) => hub.onEnd(resolve)));
    assert.deepEqual([told, early], [reason, 1]);
  });

  it("of the end is not called after it was removed", async () => {
    using r = linkRig();
    await using hub = await join(r, { reconnect: false });
    const told: string[] = [];
    const off = hub.onEnd(() => told.push("off"));
    const ended = soon("it ends", new Promise((resolve) => hub.onEnd(resolve)));
    off();
    r.scripted.latest.hangUp();
    await ended;
    assert.deepEqual(told, []);
  });
});

/** Repeats an attempt with more time, until it had enough to try twice. */
async function untilTried(attempt: (reconnectTimeoutMs: number) => Promise<number>): Promise<void> {
  let timeoutMs = 150;
  await until("it tries more than once", async () => {
    timeoutMs *= 2;
    return (await attempt(timeoutMs)) > 1;
  });
}

describe("the end of a link", () => {
  checkLeaks();

  it("comes at once if the hub says farewell", async () => {
    using r = linkRig(obliging({ open: () => undefined }));
    await using hub = await join(r);
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    const opening = hub.open("never");
    await r.scripted.heard("open");
    r.scripted.latest.refuse(0, "HUB_GONE");
    r.scripted.latest.hangUp();
    await assert.rejects(opening, code("HUB_GONE"));
    assert.ok(hasCode(await soon("the end is reported", ended), "HUB_GONE"));
    await assert.rejects(hub.list(), code("HUB_GONE"));
    assert.equal(r.scripted.connections.length, 1);
  });

  it("comes if the next hub speaks another version", async () => {
    let connections = 0;
    const hello: Script = (request, connection) => {
      connections += 1;
      return connections === 1 ? obliging()(request, connection) : { code: "PROTOCOL_MISMATCH" };
    };
    using r = linkRig(obliging({ hello }));
    await using hub = await join(r);
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    r.scripted.latest.hangUp();
    assert.ok(hasCode(await soon("the end is reported", ended), "PROTOCOL_MISMATCH"));
    assert.equal(connections, 2);
  });

  for (const [how, spoil] of [
    ["hangs up each time", (request) => (request.op === "hello" ? undefined : "hang up")],
    ["sends nonsense each time", (_, connection) => void connection.sendText("[]")],
  ] as readonly (readonly [string, Script])[]) {
    it(`comes once the time is up if the hub ${how}`, () =>
      untilTried(async (reconnectTimeoutMs) => {
        let greeted = 0;
        const hello: Script = (request, connection) =>
          greeted++ === 0
            ? obliging()(request, connection)
            : (spoil(request, connection) ?? "hang up");
        using r = linkRig(obliging({ hello }));
        await using hub = await join(r, { reconnectTimeoutMs });
        using array = await hub.create("one", ITEM);
        const ended = new Promise((resolve) => hub.onEnd(resolve));
        r.scripted.latest.hangUp();
        const waiting = hub.list({ timeoutMs: Number.POSITIVE_INFINITY });
        await soon("the wait is over", assert.rejects(waiting, code("HUB_GONE")));
        assert.ok(hasCode(await soon("the end is reported", ended), "HUB_GONE"));
        await assert.rejects(array.publish(), code("HUB_GONE"));
        return greeted - 1;
      }));
  }

  it("comes once the time is up if a request makes the hub hang up each time", () =>
    untilTried(async (reconnectTimeoutMs) => {
      let asked = 0;
      using r = linkRig(
        obliging({
          list: () => {
            asked += 1;
            return "hang up";
          },
        }),
      );
      await using hub = await join(r, { reconnectTimeoutMs });
      const waiting = hub.list({ timeoutMs: Number.POSITIVE_INFINITY });
      await soon("the wait is over", assert.rejects(waiting, code("HUB_GONE")));
      assert.ok(asked < 20, `it was asked ${asked} times`);
      return asked;
    }));

  it("comes with the end of the first connection if reconnect is false", async () => {
    using r = linkRig();
    await using hub = await join(r, { reconnect: false });
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    r.scripted.latest.hangUp();
    assert.ok(hasCode(await soon("the end is reported", ended), "HUB_GONE"));
    await assert.rejects(hub.list(), code("HUB_GONE"));
    assert.equal(r.scripted.connections.length, 1);
  });

  it("is not reported after the link's own close", async () => {
    using r = linkRig();
    const hub = await join(r);
    hub.onEnd(() => assert.fail("told"));
    r.scripted.latest.hangUp();
    const waiting = hub.list();
    await hub.close();
    await assert.rejects(waiting, code("CLOSED"));
  });
});

describe("a link that is closed while its hub reads nothing", () => {
  checkLeaks();

  it("ends although no further message can wait for the hub", async (t) => {
    using r = linkRig();
    const hub = await join(r);
    const full = t.mock.method(PacketChannel.prototype, "send", () => {
      throw new CudaIpcError("LIMIT_EXCEEDED", "Cannot send a message: too many already wait");
    });
    await soon("it is closed", hub.close());
    assert.ok(full.mock.callCount() > 0);
  });
});

describe("a link that is closed while it reconnects", () => {
  checkLeaks();

  it('still says "bye" for its session, so the hub releases everything', async () => {
    using r = linkRig();
    const hub = await join(r);
    using array = await hub.create("one", ITEM);
    r.scripted.latest.hangUp();
    array.close();
    await hub.close();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "bye"]);
    assert.deepEqual(r.scripted.latest.heard[0]?.resume, { session: 101 });
  });

  it("hangs up if it is still restoring, even without any lease", async () => {
    using r = linkRig(obliging({ restored: () => undefined }));
    const hub = await join(r);
    r.scripted.latest.hangUp();
    await r.scripted.heard("restored", 2);
    await hub.close();
    await until("the hub is left", () => !r.scripted.latest.open);
  });

  it("aborts an attempt that a hub does not answer", async () => {
    using r = linkRig();
    const hub = await join(r, { reconnectTimeoutMs: Number.POSITIVE_INFINITY });
    r.scripted.script = () => undefined;
    r.scripted.latest.hangUp();
    await r.scripted.heard("hello", 2);
    await hub.close();
    await until("the hub is left", () => !r.scripted.latest.open);
  });

  it("does not wait long for a hub that does not answer", async () => {
    using r = linkRig(obliging({ bye: () => undefined }));
    const hub = await join(r);
    using array = await hub.create("one", ITEM);
    array.close();
    await hub.close();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "create", "release", "bye"]);
  });

  it("does not wait for a missing hub", async () => {
    const r = linkRig();
    const hub = await join(r, { reconnectTimeoutMs: Number.POSITIVE_INFINITY });
    using array = await hub.create("one", ITEM);
    r[Symbol.dispose]();
    await soon("it is closed", hub.close());
    await assert.rejects(array.publish(), code("CLOSED"));
  });
});
