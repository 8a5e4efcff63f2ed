/** The client in C and the Node client share bundles through a real hub. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryPool } from "../../../src/doors/interop.js";
import type { Hub } from "../../../src/index.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import { obliging, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";
import { withCHub } from "./c-hub.js";
import { type CPrograms, skip } from "./c-programs.js";

const LIMIT = { timeoutMs: 60_000 };

const hex = (text: string | NodeJS.ArrayBufferView) =>
  typeof text === "string"
    ? Buffer.from(text).toString("hex")
    : Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString("hex");

const ODD_NAMES = ["", "größe \u{1f600}", 'quotes " and \\', "a\0b", "tab\tnew\nline"];

describe("bundles of the client in C", { skip }, () => {
  let programs: CPrograms;
  let hub: Hub;
  const peer = withCHub((it) => {
    ({ programs, hub } = it);
  });

  it("has all arrays of one that Node made, in order, with odd names and metadata", async () => {
    const layouts = Object.fromEntries(
      ODD_NAMES.map((name, i) => [name, { dtype: "int16", shape: [i, 2] } as const]),
    );
    const metadata = { format: "pt", größe: 'a "text"\n' };
    using bundle = await hub.createBundle("from-node", layouts, { metadata });
    const values = (i: number) => Int16Array.from({ length: 2 * i }, (_, k) => 100 * i - k);
    for (const [i, name] of ODD_NAMES.entries()) await bundle.array(name).write(values(i));
    await bundle.publish();
    await using reader = peer("bundle-reads", "from-node");
    assert.deepEqual(await reader.said(), {
      object: bundle.object,
      metadata: Object.entries(metadata).map((pair) => pair.map(hex)),
      names: ODD_NAMES.map(hex),
    });
    for (const i of ODD_NAMES.keys()) {
      const wanted = { dtype: "int16", shape: [i, 2], contiguous: true, hex: hex(values(i)) };
      assert.deepEqual(await reader.said(), wanted);
    }
    await reader.finish();
  });

  it("reads an empty one, and one of thousands of arrays", async () => {
    using _empty = await published("empty", {});
    const count = 5000;
    const names = Array.from({ length: count }, (_, i) => `layers.${i}.weight`);
    using _many = await published(
      "many",
      Object.fromEntries(names.map((name) => [name, { dtype: "uint8", shape: [1] } as const])),
    );
    await using reader = peer("bundle-reads", "empty");
    assert.deepEqual(((await reader.said()) as { names: [] }).names, []);
    await reader.finish();
    await using finder = peer("bundle-visits", "many", `layers.${count - 1}.weight`);
    assert.equal(((await finder.said()) as { hex: string }).hex, "00");
    await finder.finish();
    await using other = peer("bundle-visits", "many", "layers");
    assert.equal(await other.said(), "absent");
    await other.finish();
  });

  async function published(name: string, layouts: Parameters<Hub["createBundle"]>[1]) {
    const bundle = await hub.createBundle(name, layouts);
    await bundle.publish();
    return bundle;
  }

  it("makes one that Node opens, and sees what Node does to it", async () => {
    const weight = Float32Array.of(1, -2, 3.5, 0, 5, 6);
    const key = 'key "1"';
    await using maker = peer(
      ...["bundle-makes", "from-c", key, "gr\u00f6\u00dfe\n"],
      ...["w", "float32", hex(weight), "2,3"],
      ...['scale \\ "\t', "float64", hex(Float64Array.of(0.25)), ""],
      ...["none", "complex128", "", "0,7"],
    );
    assert.equal(await maker.said(), "published");
    {
      using bundle = await hub.openBundle("from-c", { access: "read-write", ...LIMIT });
      assert.deepEqual(bundle.names(), ["w", 'scale \\ "\t', "none"]);
      assert.deepEqual(bundle.metadata, { [key]: "gr\u00f6\u00dfe\n" });
      assert.deepEqual(bundle.array("w").shape, [2, 3]);
      assert.deepEqual(await bundle.array("w").read(), weight);
      assert.deepEqual(await bundle.array('scale \\ "\t').read(), Float64Array.of(0.25));
      assert.deepEqual(bundle.array("none").shape, [0, 7]);
      for (const name of bundle.names())
        assert.equal(bundle.array(name).layout.byteOffset % 256, 0);
      await bundle
        .array("w")
        .expectDType("float32")
        .write(weight.map((value) => 2 * value));
    }
    maker.tell();
    assert.equal(((await maker.said()) as { names: string[] }).names.length, 3);
    const doubled = hex(weight.map((value) => 2 * value));
    assert.equal(((await maker.said()) as { hex: string }).hex, doubled);
    await maker.finish();
  });

  it("keeps its arrays together if another one takes the name", async () => {
    const layouts = { a: { dtype: "int32", shape: [1] } } as const;
    const put = async (value: number) => {
      const bundle = await hub.createBundle("replaced", layouts);
      await bundle.array("a").write(Int32Array.of(value));
      await bundle.publish();
      return bundle;
    };
    using _first = await put(1);
    await using visitor = peer("bundle-visits", "replaced", "a");
    const value = async () => ((await visitor.said()) as { hex: string }).hex;
    assert.equal(await value(), "01000000");
    await hub.remove("replaced");
    using _second = await put(2);
    visitor.tell();
    assert.equal(await value(), "01000000");
    await visitor.finish();
    await using later = peer("bundle-visits", "replaced", "a");
    assert.equal(((await later.said()) as { hex: string }).hex, "02000000");
    await later.finish();
  });

  it("writes to an array of another process", async () => {
    using bundle = await published("written", { a: { dtype: "uint8", shape: [3] } });
    await using visitor = peer("bundle-visits", "written", "a", "070809");
    assert.equal(((await visitor.said()) as { hex: string }).hex, "000000");
    visitor.tell();
    assert.equal(((await visitor.said()) as { hex: string }).hex, "070809");
    assert.deepEqual(await bundle.array("a").read(), Uint8Array.of(7, 8, 9));
    await visitor.finish();
  });

  it("gives everything back when it is killed", async () => {
    const holders = async () => {
      const entry = (await hub.list()).find(({ name }) => name === "held");
      return entry?.leases;
    };
    using _bundle = await published("held", { a: { dtype: "uint8", shape: [3] } });
    {
      await using maker = peer("bundle-makes", "killed", "k", "v", "a", "uint8", "01", "1");
      assert.equal(await maker.said(), "published");
      await using holder = peer("bundle-visits", "held", "a");
      await holder.said();
      assert.equal(await holders(), 2);
    }
    await until("the hub has seen both ends", async () => {
      const names = (await hub.list()).map(({ name }) => name);
      return !names.includes("killed") && (await holders()) === 1;
    });
  });

  it("is refused with the reason", async () => {
    using _array = await hub.put("an-array", Int8Array.of(1));
    using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
    using pooled = await hub.createBundle("pooled", { a: { dtype: "int8", shape: [4] } }, { pool });
    await pooled.publish();
    const wanted = { "an-array": "WRONG_KIND", pooled: "UNSUPPORTED", nothing: "NOT_FOUND" };
    await using reader = peer("bundle-refuses", ...Object.keys(wanted));
    for (const code of Object.values(wanted))
      assert.equal(((await reader.said()) as [string])[0], code);
    await reader.finish();
    for (const [code, ...parts] of [
      ["INVALID_DESCRIPTOR", "a", "uint8", "", "0", "a", "uint8", "", "0"],
      ["UNSUPPORTED_DTYPE", "a", "uint7", "", "0"],
      ["INVALID_DESCRIPTOR", "a", "complex128", "", `${2 ** 49}`],
      ["INVALID_DESCRIPTOR", "a", "uint8", "", `${2 ** 52}`, "b", "uint8", "", `${2 ** 52}`],
    ]) {
      await using maker = peer("bundle-makes", "wrong", "k", "v", ...parts);
      assert.equal(((await maker.said()) as [string])[0], code);
      await maker.finish();
    }
    assert.ok((await hub.list()).every(({ name }) => name !== "wrong"));
  });

  it("refuses an index that does not fit its memory or its descriptor", async () => {
    const array = { name: "a", dtype: "uint8", shape: [10], strides: [1], byteOffset: 0 };
    const whole = { version: 1, metadata: { k: "v" }, arrays: [array] };
    const indexes: Record<string, unknown> = {
      whole,
      version: { ...whole, version: 2 },
      metadata: { ...whole, metadata: { k: 1 } },
      missing: { version: 1, arrays: [array] },
      twice: { ...whole, arrays: [array, array] },
      count: { ...whole, arrays: [] },
      beyond: { ...whole, arrays: [{ ...array, byteOffset: 1 }] },
      before: { ...whole, arrays: [{ ...array, shape: [2], strides: [-1] }] },
      dtype: { ...whole, arrays: [{ ...array, dtype: "uint7" }] },
      nameless: { ...whole, arrays: [{ ...array, name: 1 }] },
      nothing: [],
    };
    const texts = Object.fromEntries(
      Object.entries(indexes).map(([name, index]) => [name, JSON.stringify(index)]),
    );
    Object.assign(texts, { cut: texts.whole?.slice(0, -1), space: "  ", deep: "[".repeat(10_000) });
    using folder = new TestFolder();
    const memory = createMemoryFile("memory", 10);
    const files = new Map(
      Object.entries(texts).map(([name, text]) => [
        name,
        createConstantFile("i", Buffer.from(text)),
      ]),
    );
    using _hub = new ScriptedHub(
      folder.socket,
      obliging({
        open: ({ name }) => ({
          result: {
            ...{ object: 1, lease: 1 },
            descriptor: {
              ...{ version: 1, device: { kind: "host" }, mechanism: "memfd" },
              ...{ byteLength: 10, allocationByteLength: 10 },
              content: {
                kind: "bundle",
                arrayCount: name === "twice" ? 2 : 1,
                indexByteLength:
                  Buffer.byteLength(texts[String(name)] ?? "") + (name === "short" ? 1 : 0),
              },
            },
          },
          fds: [memory, files.get(String(name)) ?? memory],
        }),
      }),
    );
    await using reader = programs.peer(folder.socket, "bundle-refuses", ...Object.keys(texts));
    for (const name of Object.keys(texts)) {
      const [code] = (await reader.said()) as [string];
      const refusal = name === "dtype" ? "UNSUPPORTED_DTYPE" : "INVALID_DESCRIPTOR";
      assert.equal(code, name === "whole" ? "OK" : refusal, name);
    }
    await reader.finish();
    memory.close();
    for (const file of files.values()) file.close();
  });
});
