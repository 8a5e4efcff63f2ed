import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import type { SharedArray } from "../../../src/client/shared-array.js";
import { TAKEOVER_FORMAT } from "../../../src/hub/takeover-messages.js";
import type { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { RawClient } from "../../support/raw-client.js";
import { soon, until } from "../../support/until.js";
import { type Said, TakeoverRig } from "./takeover-rig.js";

/** A client with an object, a lease, an open that waits, and replies that it has not read. */
class Work {
  readonly #hub: Hub;
  readonly #raw: RawClient;
  readonly #frame: SharedArray;
  readonly #waiting: Promise<SharedArray>;

  private constructor(hub: Hub, raw: RawClient, frame: SharedArray) {
    this.#hub = hub;
    this.#raw = raw;
    this.#frame = frame;
    this.#waiting = hub.open("later");
  }

  static async begin(rig: TakeoverRig): Promise<Work> {
    const hub = await rig.connect();
    const frame = await hub.create("frame", { dtype: "int32", shape: [3] });
    await frame.publish();
    const raw = await RawClient.connect(rig.folder.socket);
    const work = new Work(hub, raw, frame);
    for (let index = 0; index < 20; index += 1) raw.send({ op: "open", name: "frame", access: "read", wait: false });
    await until("all is as wanted", async () => {
      const { leases, waitingOpens } = await hub.status();
      return leases === 21 && waitingOpens === 1;
    });
    return work;
  }

  /** Everything is as it was, at this hub. */
  async check(hub: Actor): Promise<void> {
    const { pid, leases, clients, objects, waitingOpens } = await this.#hub.status();
    assert.equal(pid, hub.pid);
    assert.deepEqual({ leases, objects, waitingOpens }, { leases: 21, objects: 1, waitingOpens: 1 });
    await until("only its clients are there", async () => (await this.#hub.status()).clients === 2);
    assert.ok(clients >= 2);
    for (let index = 0; index < 20; index += 1) {
      const reply = await this.#raw.reply();
      assert.ok(reply !== "end" && reply.ok);
    }
    const later = await this.#hub.create("later", { dtype: "int32", shape: [1] });
    await later.publish();
    (await soon("the wait is over", this.#waiting)).close();
    later.close();
  }

  async end(): Promise<void> {
    this.#raw.socket.close();
    this.#frame.close();
    await this.#hub.close();
  }
}

describe("a successor that is killed", () => {
  checkLeaks();

  for (const at of ["asks hub", "has everything", "ready"]) {
    it(`when its log says "${at}" leaves the hub as it was, and the next one takes over`, async () => {
      await using rig = new TakeoverRig();
      const first = await rig.serving();
      const work = await Work.begin(rig);
      const fds = rig.fdsOf(first);
      const killed = rig.hub({ signal: "SIGKILL", at });
      assert.equal(await killed.exited(), "SIGKILL", first.complaint);
      await until("the hub has let go of it", () => rig.fdsOf(first) === fds);
      const next = await rig.successorOf(first);
      await work.check(next);
      await work.end();
    });
  }

  it("leaves the hub with all that its clients said and were told", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const work = await Work.begin(rig);
    const killed = rig.hub({ signal: "SIGKILL", at: "ready" });
    await killed.exited();
    await work.check(first);
    await work.end();
  });
});

describe("a successor that stops", () => {
  checkLeaks();

  for (const at of ["has everything", "ready"]) {
    it(`when its log says "${at}" is given up on, and does not serve when it is continued`, async () => {
      await using rig = new TakeoverRig();
      const first = await rig.serving({ timeoutMs: 200 });
      const work = await Work.begin(rig);
      const stopped = rig.hub({ signal: "SIGSTOP", at });
      await until("the hub goes on", () => first.complaint.includes("goes on"));
      await work.check(first);
      stopped.kill("SIGCONT");
      assert.equal(((await stopped.says()) as Said).code, "HUB_IN_USE", stopped.complaint);
      await work.end();
    });
  }
});

describe("a hub that is killed while it hands over", () => {
  checkLeaks();

  it("once its successor is ready is followed by it, with everything", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving({ signal: "SIGKILL", at: "the successor is ready" });
    const work = await Work.begin(rig);
    const next = rig.hub();
    const { predecessor } = (await next.says()) as Said;
    assert.equal(predecessor?.pid, first.pid);
    assert.equal(await first.exited(), "SIGKILL");
    await work.check(next);
    await work.end();
  });

  it("before that is followed as after a crash, with what its journal says", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving({ signal: "SIGKILL", at: "hands over to" });
    const hub = await rig.connect();
    const frame = await hub.create("frame", { dtype: "int32", shape: [3] });
    await frame.publish();
    const next = rig.hub();
    assert.deepEqual(await next.says(), {}, "there is nothing to take over any more");
    assert.equal(await first.exited(), "SIGKILL");
    const other = await rig.connect();
    const { objects } = await other.status();
    assert.equal(objects, 1);
    // SYNC: its memory comes back with the client that holds it.
    using again = await other.open("frame");
    assert.equal(again.object, frame.object);
    again.close();
    frame.close();
    await other.close();
    await hub.close();
  });
});

describe("a hub that does not hand over", () => {
  checkLeaks();

  it("refuses a format that it does not have, and goes on", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    using raw = await RawClient.connect(rig.folder.socket);
    const reply = await raw.ask({ op: "takeover", format: TAKEOVER_FORMAT + 1 });
    assert.equal(reply.error?.code, "PROTOCOL_MISMATCH");
    assert.equal((await raw.ask({ op: "status" })).result?.pid, first.pid);
  });

  it("refuses a second one, says so, and goes on where the first fails", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const work = await Work.begin(rig);
    using one = await RawClient.connect(rig.folder.socket);
    one.send({ op: "takeover", format: TAKEOVER_FORMAT });
    one.send({ op: "takeover", format: TAKEOVER_FORMAT });
    assert.deepEqual(await one.reply(), { v: 1, id: 2, ok: true, result: {} });
    const second = await one.reply();
    assert.ok(second !== "end");
    assert.equal(second.error?.code, "HUB_IN_USE");
    one.socket.close();
    await work.check(first);
    await work.end();
  });

  it("does not to one whose table of open files is too small, and goes on", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving();
    const work = await Work.begin(rig);
    const hub = await rig.connect();
    const arrays = await Promise.all(
      Array.from({ length: 60 }, (_, index) => hub.create(`many-${index}`, { dtype: "uint8", shape: [1] })),
    );
    const poor = rig.hub({ fdsMax: 60 });
    assert.equal(((await poor.says()) as Said).code, "TOO_MANY_FDS", poor.complaint);
    for (const array of arrays) array.close();
    await hub.close();
    await work.check(first);
    await work.end();
  });

  it("ends once it knows that it goes on, where it is told to meanwhile", async () => {
    await using rig = new TakeoverRig();
    const first = await rig.serving({ timeoutMs: 200 });
    const hub = await rig.connect();
    const told = new Promise((resolve) => hub.onEnd(resolve));
    const stopped = rig.hub({ signal: "SIGSTOP", at: "ready" });
    await until("it waits for its successor", () => first.complaint.includes("has everything"));
    first.kill("SIGTERM");
    assert.equal(await first.exited(), 0);
    assert.ok(hasCode(await soon("the end is told", told), "HUB_GONE"));
    stopped.kill("SIGCONT");
    assert.equal(((await stopped.says()) as Said).code, "HUB_IN_USE");
    await hub.close();
  });
});
