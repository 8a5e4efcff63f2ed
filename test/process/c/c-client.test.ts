/** The client in C and the Node client share arrays and timelines through a real hub. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryPool } from "../../../src/doors/interop.js";
import type { Hub } from "../../../src/index.js";
import { pagesAfter } from "../../support/memory-pages.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { withCHub } from "./c-hub.js";
import { type CPrograms, skip } from "./c-programs.js";
import { ScriptedViews } from "./scripted-views.js";

const LIMIT = { timeoutMs: 60_000 };

const samples = [
  { dtype: "bool", shape: [3], values: Uint8Array.of(1, 0, 1) },
  { dtype: "uint8", shape: [2, 2], values: Uint8Array.of(0, 127, 128, 255) },
  { dtype: "int16", shape: [3], values: Int16Array.of(-32768, 0, 32767) },
  { dtype: "uint32", shape: [1, 2], values: Uint32Array.of(0, 0xffffffff) },
  { dtype: "int64", shape: [2], values: BigInt64Array.of(-(2n ** 63n), 2n ** 53n + 1n) },
  { dtype: "uint64", shape: [], values: BigUint64Array.of(2n ** 64n - 1n) },
  { dtype: "float16", shape: [2], values: Uint16Array.of(0x3c00, 0x7e01) },
  { dtype: "float8_e5m2", shape: [2], values: Uint8Array.of(0x3c, 0x7c) },
  { dtype: "float32", shape: [2, 3], values: Float32Array.of(0, -0, 1e-45, 7, Infinity, -1.5) },
  { dtype: "complex64", shape: [2], values: Float32Array.of(1, -2, 3, -4) },
  { dtype: "complex128", shape: [1], values: Float64Array.of(0.1, -0.2) },
  { dtype: "float64", shape: [2, 0], values: new Float64Array() },
] as const;

function hex(values: NodeJS.ArrayBufferView): string {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex");
}

function text(said: unknown): [string, string] {
  const [code, message] = said as [string, string];
  return [code, Buffer.from(message, "hex").toString()];
}

const MiB = 1024 * 1024;

describe("the client in C", { skip }, () => {
  let programs: CPrograms;
  let testHub: TestHub;
  let hub: Hub;
  const peer = withCHub((it) => {
    ({ programs, testHub, hub } = it);
  });

  it("reads arrays of each dtype, bit for bit", async () => {
    for (const { dtype, shape, values } of samples) {
      const array = await hub.create(`node:${dtype}`, { dtype, shape });
      await array.write(values);
      await array.publish();
    }
    await using reader = peer("reads", ...samples.map(({ dtype }) => `node:${dtype}`));
    for (const { dtype, shape, values } of samples) {
      const wanted = { dtype, shape: [...shape], contiguous: true, hex: hex(values) };
      assert.deepEqual(await reader.said(), wanted);
    }
    await reader.finish();
  });

  it("replaces an array, and another kind only if it is asked to", async () => {
    using old = await hub.put("c:replaced", Uint8Array.of(1));
    await using same = peer("replaces", "c:replaced", "same", "2");
    assert.equal(await same.said(), "published");
    await same.finish();
    using opened = await hub.open("c:replaced", { wait: false });
    assert.deepEqual([await opened.read(), await old.read()], [Uint8Array.of(2), Uint8Array.of(1)]);
    await hub.remove("c:replaced");
    using _timeline = await hub.createTimeline("c:replaced");
    await using other = peer("replaces", "c:replaced", "same", "3");
    assert.equal(await other.said(), "WRONG_KIND");
    await other.finish();
    await using any = peer("replaces", "c:replaced", "any", "4");
    assert.equal(await any.said(), "published");
    await any.finish();
    using last = await hub.open("c:replaced", { wait: false });
    assert.deepEqual(await last.read(), Uint8Array.of(4));
    await hub.remove("c:replaced");
  });

  it("takes all pages of new memory with preallocate, and none without", async () => {
    for (const preallocate of [true, false]) {
      await using creator = peer("preallocates", preallocate ? "1" : "0");
      assert.equal(await creator.said(), "published");
      const kinds = {
        array: () => hub.open("c:array"),
        bundle: () => hub.openBundle("c:bundle"),
        channel: () => hub.openChannel("c:channel"),
      };
      for (const [kind, open] of Object.entries(kinds)) {
        const { byteLength, takenBytes } = await pagesAfter(open);
        assert.ok(byteLength >= MiB, kind);
        assert.equal(takenBytes >= byteLength, preallocate, kind);
      }
      creator.tell();
      await creator.finish();
    }
  });

  it("makes arrays of each dtype, and sees what others write", async () => {
    for (const { dtype, shape, values } of samples) {
      const name = `c:${dtype}`;
      await using maker = peer("makes", name, dtype, hex(values), ...shape.map(String));
      assert.equal(await maker.said(), "published");
      using opened = await hub.open(name, { access: "read-write" });
      assert.deepEqual([opened.dtype, [...opened.shape]], [dtype, [...shape]]);
      assert.equal(hex((await opened.read()) as NodeJS.ArrayBufferView), hex(values));
      if (values.byteLength > 0) {
        const { buffer, byteOffset, byteLength } = opened.view();
        new Uint8Array(buffer, byteOffset, byteLength).fill(0);
      }
      maker.tell();
      assert.equal(await maker.said(), "00".repeat(values.byteLength));
      await maker.finish();
    }
  });

  it("follows strides that are negative, 0 or have gaps", async () => {
    // The hub takes any descriptor that fits its memory, and the library makes no such arrays.
    using script = new ScriptedViews();
    await using reader = programs.peer(script.socket, "reads", "reverse", "same", "columns");
    const said = { dtype: "int8", contiguous: false };
    assert.deepEqual(await reader.said(), { ...said, shape: [3], hex: "020100" });
    assert.deepEqual(await reader.said(), { ...said, shape: [2, 2], hex: "05050505" });
    assert.deepEqual(await reader.said(), { ...said, shape: [2, 2], hex: "01030507" });
    await reader.finish();
  });

  it("refuses descriptors whose elements leave their memory, and others that lie", async () => {
    using script = new ScriptedViews();
    const names = ["beyond", "before", "huge", "unaligned", "short"];
    await using reader = programs.peer(script.socket, "refuses", ...names, "unknown");
    for (const name of names)
      assert.equal(text(await reader.said())[0], "INVALID_DESCRIPTOR", name);
    assert.equal(text(await reader.said())[0], "UNSUPPORTED_DTYPE");
    await reader.finish();
  });

  it("names the reason if it cannot open", async () => {
    using _timeline = await hub.createTimeline("a-timeline");
    using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
    using pooled = await hub.create("pooled", { dtype: "int8", shape: [4], pool });
    await pooled.publish();
    using _waiting = await hub.create("not-published", { dtype: "int8", shape: [4] });
    const names = ["a-timeline", "pooled", "no name", "not-published", "nobody"];
    await using reader = peer("refuses", ...names);
    assert.deepEqual(text(await reader.said()), [
      "WRONG_KIND",
      'Cannot open "a-timeline": it is of the kind timeline, wanted array',
    ]);
    assert.equal(text(await reader.said())[0], "UNSUPPORTED");
    assert.equal(text(await reader.said())[0], "INVALID_NAME");
    const [code, message] = text(await reader.said());
    assert.equal(code, "TIMEOUT");
    assert.match(message, new RegExp(`process ${process.pid} .*has not published it yet`));
    assert.match(
      text(await reader.said())[1],
      /within 100 ms: no process has created "nobody"; the hub is at \//,
    );
    await reader.finish();
    assert.equal((await hub.status()).waitingOpens, 0);
  });

  it("refuses a shape, a dtype and a device that are invalid, and makes nothing", async () => {
    for (const args of [
      ["x", "float31", "", "1"],
      ["x", "int8", "", "-1"],
      ["x", "complex128", "", String(2 ** 40), String(2 ** 40)],
      ["a name", "int8", "00", "1"],
    ]) {
      await using maker = peer("makes", ...args);
      assert.match(
        String(await maker.said()),
        /^(UNSUPPORTED_DTYPE|INVALID_DESCRIPTOR|INVALID_NAME)$/,
      );
      await maker.finish();
    }
  });

  it("lists more names than one packet holds", async () => {
    await using other = await testHub.connect();
    const count = 300;
    for (let i = 0; i < count; i += 1) {
      const name = `many-${String(i).padStart(3, "0")}-${"x".repeat(60)}`;
      await (await other.create(name, { dtype: "int8", shape: [1] })).publish();
    }
    const wanted = (await hub.list()).map(({ name }) => name);
    assert.ok(wanted.length > count);
    await using lister = peer("lists");
    assert.deepEqual(await lister.said(), wanted);
    await lister.finish();
  });

  it("waits for a timeline, and learns of its end", async () => {
    using timeline = await hub.createTimeline("node-steps");
    await using waiting = peer("awaits", "node-steps", "3", "60000");
    await using late = peer("awaits", "node-steps", "9", "60000");
    await using impatient = peer("awaits", "node-steps", "9", "20");
    for (const one of [waiting, late, impatient]) assert.equal(await one.said(), "waiting");
    assert.equal(await impatient.said(), "TIMEOUT");
    timeline.signal(4);
    assert.equal(await waiting.said(), 4);
    timeline.close();
    assert.equal(await late.said(), "PEER_GONE");
    for (const one of [waiting, late, impatient]) await one.finish();
  });

  it("makes a timeline for which others wait, also until it is killed", async () => {
    const ticking = peer("ticks", "c-steps");
    try {
      assert.equal(await ticking.said(), 0);
      using timeline = await hub.openTimeline("c-steps", LIMIT);
      const waiting = timeline.wait(2, LIMIT);
      ticking.tell();
      assert.equal(await ticking.said(), 1);
      ticking.tell();
      await waiting;
      const never = assert.rejects(timeline.wait(100, LIMIT), { code: "PEER_GONE" });
      await ticking[Symbol.asyncDispose]();
      await never;
    } finally {
      await ticking[Symbol.asyncDispose]();
    }
  });

  it("continues a timeline whose owner is gone, and shows no value without an owner", async () => {
    await using polling = await (async () => {
      await using first = peer("owns", "c-passed", "create", "5");
      assert.equal(await first.said(), 0);
      using timeline = await hub.openTimeline("c-passed", LIMIT);
      await timeline.wait(5, LIMIT);
      await using refused = peer("owns", "c-passed", "resume", "6");
      assert.equal(await refused.said(), "IN_USE");
      await refused.finish();
      const polling = peer("polls", "c-passed");
      assert.deepEqual(await polling.said(), [5, 5]);
      return polling;
    })();
    using timeline = await hub.openTimeline("c-passed", LIMIT);
    await until("its owner is awaited", () => timeline.awaited);
    polling.tell();
    assert.deepEqual(await polling.said(), [-1, 5]);
    const waiting = timeline.wait(6, LIMIT);
    await using second = peer("owns", "c-passed", "resume", "6");
    assert.equal(await second.said(), 5);
    await waiting;
    polling.tell();
    assert.deepEqual(await polling.said(), [6, 6]);
    await second.finish();
    await until("its owner is awaited again", () => timeline.awaited);
    await hub.remove("c-passed");
    polling.tell();
    assert.deepEqual(await polling.said(), [-1, 6]);
    await polling.finish();
  });

  it("gives everything back when it is killed", async () => {
    const isListed = async () => (await hub.list()).some(({ name }) => name === "killed");
    {
      await using maker = peer("makes", "killed", "int8", "0102", "2");
      assert.equal(await maker.said(), "published");
      assert.ok(await isListed());
    }
    await until("the hub has seen its end", async () => !(await isListed()));
  });

  it("ends its waits with HUB_GONE if the hub ends", async () => {
    await using own = await TestHub.start();
    await using client = await own.connect({ reconnect: false });
    using _timeline = await client.createTimeline("steps");
    await using waiting = programs.peer(own.socket, "awaits", "steps", "9", "60000");
    assert.equal(await waiting.said(), "waiting");
    await own.killWithKeeper();
    assert.equal(await waiting.said(), "HUB_GONE");
    await waiting.finish();
  });
});
