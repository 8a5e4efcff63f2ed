/** The client in C and the Node client share arrays and timelines through a real hub. */
import assert from "node:assert/strict";
import { chmodSync, writeSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { MemoryPool } from "../../../src/doors/interop.js";
import type { Hub } from "../../../src/index.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { HostileHub } from "../../support/hostile-hub.js";
import { nightly, Random, seedOfRun } from "../../support/random.js";
import { obliging, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { CPrograms, skip } from "./c-programs.js";

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

describe("the client in C", { skip }, () => {
  let programs: CPrograms;
  let testHub: TestHub;
  let hub: Hub;

  before(async () => {
    programs = new CPrograms();
    testHub = await TestHub.start();
    hub = await testHub.connect();
  });

  after(async () => {
    programs[Symbol.dispose]();
    await hub.close();
    await testHub[Symbol.asyncDispose]();
  });

  const peer = (command: string, ...args: string[]) =>
    programs.peer(testHub.socket, command, ...args);

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
    const names = ["beyond", "before", "huge", "unaligned", "short", "unknown"];
    await using reader = programs.peer(script.socket, "refuses", ...names);
    for (const name of names)
      assert.equal(text(await reader.said())[0], "INVALID_DESCRIPTOR", name);
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
    assert.match(text(await reader.said())[1], /within 100 ms: no process has created "nobody"$/);
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

describe("the client in C, at a hub that is not as it should be", { skip }, () => {
  let programs: CPrograms;

  before(() => {
    programs = new CPrograms();
  });
  after(() => programs[Symbol.dispose]());

  for (const [age, version] of Object.entries({ older: 0, newer: 2 })) {
    it(`says PROTOCOL_MISMATCH to an ${age} one`.replace("an newer", "a newer"), async () => {
      using folder = new TestFolder();
      using _hub = new ScriptedHub(folder.socket, ({ id }, connection) => {
        connection.sendText(JSON.stringify({ v: version, id, ok: true, result: {} }));
        return undefined;
      });
      await using peer = programs.peer(folder.socket, "lists");
      assert.match(await peer.errors(), new RegExp(`PROTOCOL_MISMATCH.*speaks version ${version}`));
    });
  }

  it("passes on what a newer hub says about its version", async () => {
    using folder = new TestFolder();
    using _hub = new ScriptedHub(folder.socket, () => ({ code: "PROTOCOL_MISMATCH" }));
    await using peer = programs.peer(folder.socket, "lists");
    assert.match(await peer.errors(), /^error\[PROTOCOL_MISMATCH\]/);
  });

  it("says HUB_UNAVAILABLE if none runs", async () => {
    using folder = new TestFolder();
    await using peer = programs.peer(folder.socket, "lists");
    assert.match(await peer.errors(), /^error\[HUB_UNAVAILABLE\].*`cuda-ipc hub serve`/);
  });

  it("does not trust a folder to which others can write", async () => {
    await using own = await TestHub.start();
    chmodSync(own.folder.path, 0o777);
    await using peer = programs.peer(own.socket, "lists");
    assert.match(await peer.errors(), /^error\[UNSAFE_RUNTIME_DIR\].*mode 777/);
    chmodSync(own.folder.path, 0o700);
  });

  it("connects again while a hub hangs up without a word", async () => {
    using folder = new TestFolder();
    let refusals = 3;
    const script = obliging();
    using _hub = new ScriptedHub(folder.socket, (request, connection) => {
      if (request.op === "hello" && refusals-- > 0) return "hang up";
      return script(request, connection);
    });
    await using peer = programs.peer(folder.socket, "lists");
    assert.deepEqual(await peer.said(), []);
    await peer.finish();
  });

  it("survives answers in bad faith, without a leak or a wrong access", async (test) => {
    const seed = seedOfRun();
    test.diagnostic(`seed ${seed}, sanitizers: ${programs.sanitized}`);
    using folder = new TestFolder();
    using hostile = new HostileHub(folder.socket, new Random(seed));
    for (const malice of [0, 0.02, 0.1, 0.5]) {
      hostile.malice = malice;
      await using peer = programs.peer(folder.socket, "tries", nightly ? "2000" : "60");
      const succeeded = Number(await peer.said());
      assert.ok(malice > 0.1 || succeeded > 0, `malice ${malice}`);
      await peer.finish();
    }
  });
});

/** A hub whose answers name memory of ten bytes, 0 to 9, in ways that fit or do not. */
class ScriptedViews {
  readonly #folder = new TestFolder();
  readonly #memory = createMemoryFile("ten bytes", 10);
  readonly #hub: ScriptedHub;

  constructor() {
    const array = (shape: number[], strides: number[], byteOffset: number, dtype = "int8") => ({
      dtype,
      shape,
      strides,
      byteOffset,
    });
    const views: Record<string, object> = {
      reverse: array([3], [-1], 2),
      same: array([2, 2], [0, 0], 5),
      columns: array([2, 2], [4, 2], 1),
      beyond: array([3], [4], 2),
      before: array([3], [-4], 2),
      huge: array([2 ** 40, 2 ** 40], [2 ** 40, 1], 0),
      unaligned: array([2], [1], 1, "int16"),
      short: array([2], [1], 9),
      unknown: array([2], [1], 0, "int7"),
    };
    this.#hub = new ScriptedHub(
      this.#folder.socket,
      obliging({
        open: ({ name }) => ({
          result: {
            object: 1,
            lease: 1,
            descriptor: {
              version: 1,
              device: { kind: "host" },
              mechanism: "memfd",
              byteLength: 10,
              allocationByteLength: 10,
              content: { kind: "array", array: views[String(name)] },
            },
          },
          fds: [this.#memory],
        }),
      }),
    );
    writeSync(
      this.#memory.number,
      Uint8Array.from({ length: 10 }, (_, index) => index),
    );
  }

  get socket(): string {
    return this.#folder.socket;
  }

  [Symbol.dispose](): void {
    this.#hub[Symbol.dispose]();
    this.#memory.close();
    this.#folder[Symbol.dispose]();
  }
}
