import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { limits } from "../../../../src/base/limits.js";
import {
  IndexAccount,
  indexMemory,
  metadataMemory,
} from "../../../../src/bridge/transfer/index-account.js";

const MAX = 100;
const soon = () => new Deadline("copy", {}, 10_000);
const settled = () => new Promise((resolve) => setImmediate(resolve));

function account() {
  const begun: string[] = [];
  const made = new IndexAccount("indexMax", MAX);
  const take = async (name: string, bytes: number, deadline = soon()) => {
    const charge = await made.take(`copy "${name}"`, bytes, deadline);
    begun.push(name);
    return charge;
  };
  return { account: made, begun, take };
}

describe("IndexAccount", () => {
  it("lets copies wait for room, in their order", async () => {
    const { account: made, begun, take } = account();
    const first = await take("first", 60);
    const large = take("large", 70);
    const small = take("small", 10);
    await settled();
    assert.deepEqual(begun, ["first"], "the small one does not overtake the large one");
    first[Symbol.dispose]();
    const charges = await Promise.all([large, small]);
    assert.deepEqual([begun, made.bytes], [["first", "large", "small"], 80]);
    for (const charge of charges) {
      charge[Symbol.dispose]();
      charge[Symbol.dispose]();
    }
    assert.equal(made.bytes, 0);
  });

  it("refuses at once what never has room", async () => {
    const { account: made, take } = account();
    await assert.rejects(take("huge", MAX + 1), {
      code: "LIMIT_EXCEEDED",
      message: /Cannot copy "huge": its index takes up to 101 bytes.* limit \(indexMax\) is 100/,
      remedy: /Split the bundle/,
    });
    assert.equal(made.bytes, 0);
  });

  it("forgets a copy that waits no longer, and goes on with the next one", async () => {
    const { account: made, begun, take } = account();
    const first = await take("first", 60);
    const stop = new AbortController();
    const given = take("given up", 70, new Deadline("copy", { signal: stop.signal }, 10_000));
    const small = take("small", 40);
    stop.abort();
    await assert.rejects(given, { code: "ABORTED" });
    await small;
    assert.deepEqual([begun, made.bytes], [["first", "small"], MAX]);
    first[Symbol.dispose]();
    assert.equal(made.bytes, 40);
  });

  it("gives back what came at the same moment as the end of the wait", async () => {
    const { account: made, take } = account();
    const first = await take("first", MAX);
    const stop = new AbortController();
    const given = take("given up", MAX, new Deadline("copy", { signal: stop.signal }, 10_000));
    await settled();
    first[Symbol.dispose]();
    stop.abort();
    await assert.rejects(given, { code: "ABORTED" });
    assert.equal(made.bytes, 0);
  });

  it("lets a charge grow if there is room, and never waits for it", async () => {
    const { account: made, take } = account();
    const first = await take("first", 50);
    first.growTo(20);
    assert.equal(made.bytes, 50);
    first.growTo(90);
    assert.equal(made.bytes, 90);
    assert.throws(() => first.growTo(MAX + 1), { code: "LIMIT_EXCEEDED" });
    first[Symbol.dispose]();
    assert.equal(made.bytes, 0);
  });
});

describe("indexMemory", () => {
  it("has room for the largest models, and none for a million arrays", () => {
    const ofTensors = { arrayCount: 92_000, indexByteLength: 150 * 92_000 };
    assert.ok(indexMemory(ofTensors) < limits.bridgeIndexBytesMax);
    const million = { arrayCount: limits.bundleArraysMax, indexByteLength: 2 };
    assert.ok(indexMemory(million) > limits.bridgeIndexBytesMax);
  });

  it("counts the texts of metadata, beside those of the arrays", () => {
    const array = { name: 'a"b', dtype: "uint8", shape: [1], strides: [1], byteOffset: 0 };
    const bytes = (metadata: object) =>
      new TextEncoder().encode(JSON.stringify({ version: 1, metadata, arrays: [array] }));
    const none = metadataMemory(bytes({}), 1);
    const some = metadataMemory(bytes({ key: "value", 'other\\"': "[{" }), 1);
    assert.equal(some - none, 4 * 128);
    assert.equal(metadataMemory(bytes({}), 100), 0);
  });
});
