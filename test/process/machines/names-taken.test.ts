/** Names that get another object, on either machine, while a bridge copies or carries the first. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { pullName } from "../../../src/client/connection/bridge-call.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { untilCopying } from "../../support/machines/until-copying.js";
import { until } from "../../support/until.js";

const LARGE_BYTES = 32 * 1024 * 1024;
const PINNED = { lifetime: "pinned" } as const;

describe("a name of two machines", { skip: skipWithoutEngines }, () => {
  let site: TwoMachines;

  before(async () => {
    site = await TwoMachines.start();
  });
  after(() => site?.[Symbol.asyncDispose]());

  /** Lets machine "one" announce several changes as one. */
  async function atOnce<T>(change: () => Promise<T>): Promise<T> {
    site.one.signalBridge("SIGSTOP");
    try {
      return await change();
    } finally {
      site.one.signalBridge("SIGCONT");
    }
  }

  /** Whether machine "other" has the name, as a copy. */
  async function copied(name: string): Promise<boolean> {
    const objects = await site.hubOfOther.list({ prefix: name });
    return objects.some((it) => it.name === name && it.descriptor.replicaOf !== undefined);
  }

  it("stays this machine's that took it while a later copy was fetched", async () => {
    const { hubOfOne, hubOfOther, other } = site;
    using _first = await hubOfOne.put("taken", Uint8Array.of(1), PINNED);
    (await hubOfOther.open("taken", { from: "any" })).close();
    const later = { ...PINNED, replace: true };
    site.one.hold();
    using _later = await hubOfOne.put("taken", new Uint8Array(LARGE_BYTES), later);
    await untilCopying(other);
    let isWaiting = false;
    const pulling = pullName(other.hub.socket, "taken", {
      ...{ deadline: new Deadline("pull", {}, 20_000), isLimited: true, wait: false },
      onProgress: () => {
        isWaiting = true;
      },
    });
    await until("a process waits for the later copy", () => isWaiting);
    using own = await hubOfOther.put("taken", Uint8Array.of(7), later);
    site.one.goOn();
    // It is what a process gets that waited for the copy.
    assert.equal((await pulling).machine, null);
    assert.equal((await hubOfOther.inspect("taken")).object.object, own.object);
    await until("it says why", () => /not copied: "taken" .*has this name/.test(other.log));
  });

  it("is a channel that has taken the place of an array", async () => {
    const { hubOfOne, hubOfOther } = site;
    (await hubOfOne.put("turned", Uint8Array.of(1), PINNED)).close();
    (await hubOfOther.open("turned", { from: "any" })).close();
    using _later = await atOnce(async () => {
      await hubOfOne.remove("turned");
      return hubOfOne.createChannel("turned", { byteLength: 8 });
    });
    await until("the copy of the array is removed", async () => !(await copied("turned")));
    using reader = await hubOfOther.openChannel("turned", { machine: "any" });
    assert.equal(reader.open, true);
  });

  it("is carried again if it was removed here, and its first reader goes on", async () => {
    const { hubOfOne, hubOfOther } = site;
    using writer = await hubOfOne.createChannel("frames", { byteLength: 8 });
    using first = await hubOfOther.openChannel("frames", { machine: "any" });
    await hubOfOther.remove("frames");
    using second = await hubOfOther.openChannel("frames", { machine: "any", timeoutMs: 20_000 });
    (await writer.loan()).commit({ meta: "both" });
    for (const reader of [first, second]) assert.equal((await reader.next())?.json, "both");
  });

  it("is the later channel for later readers, and the earlier one for those that have it", async () => {
    const { hubOfOne, hubOfOther } = site;
    using writer = await hubOfOne.createChannel("events", { byteLength: 8 });
    using first = await hubOfOther.openChannel("events", { machine: "any" });
    using _later = await atOnce(async () => {
      await hubOfOne.remove("events");
      return hubOfOne.createChannel("events", { byteLength: 16 });
    });
    await until("the earlier channel is removed", async () => !(await copied("events")));
    using second = await hubOfOther.openChannel("events", { machine: "any", timeoutMs: 20_000 });
    assert.deepEqual(second.shape, [16]);
    (await writer.loan()).commit({ meta: "earlier" });
    assert.equal((await first.next())?.json, "earlier");
  });
});
