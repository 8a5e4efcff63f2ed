/** Each part of two linked machines ends while an array is copied, or before. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { restore, startShared } from "../../support/machines/shared-site.js";
import type { TwoMachines } from "../../support/machines/two-machines.js";
import { untilCopying } from "../../support/machines/until-copying.js";
import { soon, until } from "../../support/until.js";

const isSkipped = skipWithoutEngines;

/** Many pieces. All but the first wait until the test lets the sender go on. */
const BYTES = 64 * 1024 * 1024;

/** Puts a large array on one machine, and begins to copy it to the other. */
async function beginCopy(site: TwoMachines) {
  const values = new Uint8Array(BYTES).fill(1);
  values[BYTES - 1] = 77;
  (await site.hubOfOne.put("large", values, { lifetime: "pinned" })).close();
  return fetching(site);
}

async function fetching({ one, other, hubOfOther }: TwoMachines) {
  await one.says('announced: "large"');
  one.hold();
  const opening = hubOfOther.open("large", { from: "any", dtype: "uint8" });
  opening.catch(() => {});
  await untilCopying(other);
  // In an object, because an async function would wait for it.
  return { opening };
}

async function isWhole(hub: Hub): Promise<void> {
  using copy = await hub.open("large", { dtype: "uint8", wait: false });
  const bytes = await copy.read();
  assert.equal(bytes[BYTES - 1], 77);
  assert.equal(Buffer.from(bytes.buffer).indexOf(0), -1);
}

async function isAbsent(hub: Hub): Promise<void> {
  await until("nothing of it is left", async () => (await hub.list()).length === 0);
}

describe("while an array is copied, or afterwards", { skip: isSkipped }, () => {
  let site: TwoMachines;

  before(async () => {
    site = await startShared();
  });
  afterEach(() => restore(site));
  after(() => site?.[Symbol.asyncDispose]());

  it("the bridge that sends it is killed: PEER_GONE, and nothing is left", async () => {
    const { opening } = await beginCopy(site);
    await site.one.killBridge();
    await assert.rejects(soon("the open ends", opening), (error: Error & { code?: string }) => {
      assert.equal(error.code, "PEER_GONE");
      assert.match(error.message, /machine "one"/);
      return true;
    });
    await isAbsent(site.hubOfOther);
  });

  it("the next bridge of that machine goes on with it", async () => {
    const { opening } = await beginCopy(site);
    await site.one.killBridge();
    site.one.goOn();
    site.one.startBridge();
    using copy = await soon("the copy is there", opening);
    assert.equal(copy.byteLength, BYTES);
    await isWhole(site.hubOfOther);
  });

  it("the bridge that receives it is killed: PEER_GONE, and the next one begins anew", async () => {
    const { opening } = await beginCopy(site);
    const before = site.one.bridgeFds();
    await site.other.killBridge();
    await assert.rejects(soon("the open ends", opening), { code: "PEER_GONE" });
    await isAbsent(site.hubOfOther);
    site.one.goOn();
    // The next bridge of the machine begins anew.
    site.other.startBridge();
    await site.other.bridged();
    const again = site.hubOfOther.open("large", { from: "any", dtype: "uint8" });
    using _copy = await soon("the copy is there", again);
    await isWhole(site.hubOfOther);
    await until("the sender has closed the first link", () => site.one.bridgeFds() <= before);
  });

  it("NATS is killed: the copy goes on, and new names are found after its return", async () => {
    const { opening } = await beginCopy(site);
    await site.nats.kill();
    site.one.goOn();
    using _copy = await soon("the copy is there", opening);
    await isWhole(site.hubOfOther);
    await site.other.says("NATS does not answer");
    const open = () => site.hubOfOther.open("new", { from: "any", wait: false });
    await assert.rejects(open(), /NATS has not answered for \d+ s/);
    await site.nats.resume();
    using _original = await site.hubOfOne.put("new", Uint8Array.of(1));
    const later = site.hubOfOther.open("new", { from: "any", timeoutMs: 25_000 });
    using _late = await soon("it is found", later);
    // NATS lost all records, and nobody took that for the end of the original.
    await isWhole(site.hubOfOther);
  });

  it("the owner of the array is killed: the copy is finished and then removed", async () => {
    const args = [site.one.hub.socket, String(BYTES)];
    await using owner = new Actor(new URL("actors/owns-large.js", import.meta.url), { args });
    await owner.says();
    const { opening } = await fetching(site);
    owner.kill("SIGKILL");
    site.one.goOn();
    using copy = await soon("the copy is there", opening);
    assert.equal((await copy.read())[BYTES - 1], 77);
    await isAbsentName(site.hubOfOther, "large");
  });

  for (const side of ["one", "other"] as const)
    it(`the hub of machine "${side}" is killed: its keeper starts the next, and the copy goes on`, async () => {
      const { opening } = await beginCopy(site);
      site[side].hub.kill("SIGKILL");
      site.one.goOn();
      using copy = await soon("the copy is there", opening);
      assert.equal(copy.byteLength, BYTES);
      await isWhole(site.hubOfOther);
    });

  it("the original is removed: the copy is finished and then removed", async () => {
    const { opening } = await beginCopy(site);
    await site.hubOfOne.remove("large");
    site.one.goOn();
    using copy = await soon("the copy is there", opening);
    assert.equal((await copy.read())[BYTES - 1], 77);
    await isAbsentName(site.hubOfOther, "large");
  });

  it("nobody waits for it any more: it is given up", async () => {
    const { opening } = await beginCopy(site);
    const stop = new AbortController();
    const second = site.hubOfOther.open("large", { from: "any", signal: stop.signal });
    stop.abort();
    await assert.rejects(second, { code: "ABORTED" });
    site.one.goOn();
    using _copy = await soon("the other open goes on", opening);
    await site.hubOfOther.remove("large");
    site.one.hold();
    const alone = new AbortController();
    const third = site.hubOfOther.open("large", { from: "any", signal: alone.signal });
    third.catch(() => {});
    await until("it is fetched again", async () => (await site.hubOfOther.list()).length > 0);
    alone.abort();
    // Comes while the copy that nobody waits for still ends.
    const fourth = site.hubOfOther.open("large", { from: "any", dtype: "uint8" });
    await assert.rejects(third, { code: "ABORTED" });
    site.one.goOn();
    (await soon("the next copy is there", fourth)).close();
    await site.hubOfOther.remove("large");
    site.one.hold();
    const last = new AbortController();
    const fifth = site.hubOfOther.open("large", { from: "any", signal: last.signal });
    fifth.catch(() => {});
    await until("it is fetched again", async () => (await site.hubOfOther.list()).length > 0);
    last.abort();
    await assert.rejects(fifth, { code: "ABORTED" });
    site.one.goOn();
    await isAbsent(site.hubOfOther);
    await site.other.says("not copied");
  });

  it("a bridge that is killed leaves its copies, and the next one keeps them in step", async () => {
    const { hubOfOne, hubOfOther, other } = site;
    (await hubOfOne.put("kept", Uint8Array.of(1), { lifetime: "pinned" })).close();
    (await hubOfOther.open("kept", { from: "any" })).close();
    await other.killBridge();
    (await hubOfOther.open("kept", { wait: false })).close();
    await hubOfOne.remove("kept");
    other.startBridge();
    await isAbsentName(hubOfOther, "kept");
  });

  it("a bridge whose machine is gone has removed nothing: copies stay", async () => {
    const { hubOfOne, hubOfOther, one, other } = site;
    (await hubOfOne.put("kept", Uint8Array.of(1), { lifetime: "pinned" })).close();
    (await hubOfOther.open("kept", { from: "any" })).close();
    await one.killBridge();
    await until("the machine is gone", async () => {
      const { machines } = await other.status();
      return machines.every(({ machine, alive }) => machine !== "one" || !alive);
    });
    // The bridge answers this, so it has done all that it does about the machine's end.
    const again = hubOfOther.open("unknown", { from: "any", wait: false });
    await assert.rejects(again, { code: "NOT_FOUND" });
    (await hubOfOther.open("kept", { wait: false })).close();
    await hubOfOther.remove("kept");
    await assert.rejects(hubOfOther.open("kept", { from: "any", wait: false }), {
      code: "PEER_GONE",
    });
  });

  it("a bridge that is interrupted takes its names back at once", async () => {
    const { hubOfOne, hubOfOther, one } = site;
    (await hubOfOne.put("kept", Uint8Array.of(1), { lifetime: "pinned" })).close();
    (await hubOfOther.open("kept", { from: "any" })).close();
    one.signalBridge("SIGTERM");
    assert.equal(await one.bridgeEnded(), 0);
    (await hubOfOther.open("kept", { wait: false })).close();
    await hubOfOther.remove("kept");
    await assert.rejects(hubOfOther.open("kept", { from: "any", wait: false }), {
      code: "NOT_FOUND",
    });
  });
});

it("a bridge ends with the hub that sends an array, and says why", {
  skip: isSkipped,
}, async () => {
  await using site = await startShared();
  const { opening } = await beginCopy(site);
  await site.hubOfOne.stop({ force: true });
  site.one.goOn();
  assert.equal(await site.one.bridgeEnded(), 1);
  assert.match(site.one.log, /error\[HUB_GONE\]/);
  await opening.then((copy) => copy.close()).catch(() => {});
});

async function isAbsentName(hub: Hub, name: string): Promise<void> {
  await until(`"${name}" is removed`, async () =>
    (await hub.list()).every((it) => it.name !== name),
  );
}
