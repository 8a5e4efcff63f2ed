import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { FileProgress, SaveOptions } from "../../../src/client/hub-options.js";
import type { SharedArray } from "../../../src/client/shared-array.js";
import type { SharedBundle } from "../../../src/client/shared-bundle.js";
import type { FileFormat } from "../../../src/files/file-format.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { checkLeaks } from "../../support/leak-check.js";
import { safetensorsFile, shardedModel, writeFolder } from "../../support/safetensors-files.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

function npyFile(values: Float32Array): Buffer {
  return Buffer.concat([encodeNpyHeader("float32", [values.length]), new Uint8Array(values.buffer)]);
}

/** Larger than a piece of any copy. */
const LARGE = npyFile(new Float32Array(24 * 1024 * 1024).fill(3));

/** Aborted when all bytes were moved. */
function abortsAtTheEnd(): { signal: AbortSignal; onProgress: (progress: FileProgress) => void } {
  const controller = new AbortController();
  const onProgress = ({ doneBytes, totalBytes }: FileProgress) => {
    if (doneBytes === totalBytes) controller.abort();
  };
  return { signal: controller.signal, onProgress };
}

describe("load", () => {
  checkLeaks();

  it("publishes an .npy file as an array, and raw bytes as what they are said to be", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    const path = testHub.folder.file("x.npy");
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1, 2, 3)) });
    using loaded: SharedArray | SharedBundle = await hub.load("x", path);
    assert.equal(loaded.kind, "array");
    using opened = await other.open("x", { wait: false, dtype: "float32" });
    assert.deepEqual(await opened.read(), Float32Array.of(1, 2, 3));
    using raw: SharedArray = await hub.load("raw", path, { format: "raw", dtype: "uint8", shape: [2, 70] });
    assert.deepEqual([raw.dtype, raw.shape], ["uint8", [2, 70]]);
  });

  it("publishes a folder of safetensors files as one bundle, bit for bit", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const model = shardedModel();
    const folder = writeFolder(testHub.folder.file("model"), model);
    const steps: FileProgress[] = [];
    const onProgress = (step: FileProgress) => steps.push(step);
    using bundle: SharedBundle = await hub.load("model", folder, { format: "safetensors", onProgress });
    assert.deepEqual([bundle.names(), bundle.metadata], [["a", "b", "c", "d"], { format: "pt" }]);
    const second = model["model-00002-of-00002.safetensors"] as Buffer;
    const c = (await bundle.array("c").read()) as Float32Array;
    assert.equal(Buffer.compare(Buffer.from(c.buffer), second.subarray(-29, -5)), 0);
    assert.deepEqual(steps.at(0), { doneBytes: 0, totalBytes: 58 });
    assert.deepEqual(steps.at(-1), { doneBytes: 58, totalBytes: 58 });
    const counts = steps.map(({ doneBytes }) => doneBytes);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
  });

  it("takes the name at once, or keeps the older object until the new one is filled", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1)), "y.npy": npyFile(Float32Array.of(2)) });
    const [x, y] = [testHub.folder.file("x.npy"), testHub.folder.file("y.npy")];
    (await hub.load("x", x, { lifetime: "pinned" })).close();
    const read = () => assert.fail("read");
    await assert.rejects(hub.load("x", y, { onProgress: read }), (error) => hasCode(error, "NAME_TAKEN"));
    const aborted = hub.load("x", y, { replace: true, ...abortsAtTheEnd() });
    await assert.rejects(aborted, (error) => hasCode(error, "ABORTED"));
    const before: unknown[] = [];
    const onProgress = () => before.push(hub.open("x", { wait: false, dtype: "float32" }));
    using replaced = await hub.load("x", y, { replace: true, onProgress });
    assert.deepEqual(await (replaced as SharedArray).read(), Float32Array.of(2));
    for (const opening of before as ReturnType<typeof hub.open<"float32">>[]) {
      using older = await opening;
      assert.deepEqual(await older.read(), Float32Array.of(1));
    }
  });

  it("leaves nothing behind if it fails, is aborted or takes too long", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const file = (name: string) => testHub.folder.file(name);
    writeFolder(testHub.folder.path, { "cut.npy": LARGE.subarray(0, -1), "large.npy": LARGE, "bad.npy": "x" });
    for (const replace of [false, true]) {
      for (const name of ["cut.npy", "bad.npy", "absent.npy"]) {
        await assert.rejects(hub.load("x", file(name), { replace }), (error) => hasCode(error, "INVALID_FILE"));
      }
      const controller = new AbortController();
      const onProgress = ({ doneBytes }: FileProgress) => doneBytes > 0 && controller.abort();
      await assert.rejects(hub.load("x", file("large.npy"), { signal: controller.signal, onProgress, replace }), {
        code: "ABORTED",
        message: `Cannot load "x" from "${file("large.npy")}": aborted`,
      });
      const last = hub.load("x", file("large.npy"), { replace, lifetime: "pinned", ...abortsAtTheEnd() });
      await assert.rejects(last, (error) => hasCode(error, "ABORTED"));
      await assert.rejects(hub.load("x", file("large.npy"), { timeoutMs: 0, replace }), {
        code: "TIMEOUT",
        message: `Cannot load "x" from "${file("large.npy")}": not done within 0 ms`,
      });
      const fails = () => {
        throw new RangeError("mine");
      };
      await assert.rejects(hub.load("x", file("large.npy"), { onProgress: fails, replace }), /mine/);
    }
    const { objects, leases } = await hub.status();
    assert.deepEqual([objects, leases], [0, 0]);
  });

  it("takes its name back if it is aborted while the hub has not answered yet", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1)) });
    const controller = new AbortController();
    const onProgress = ({ doneBytes, totalBytes }: FileProgress) => {
      if (doneBytes < totalBytes) return;
      testHub.kill("SIGSTOP");
      // Once the request to publish has been sent.
      setImmediate(() => setImmediate(() => controller.abort()));
    };
    const options = { lifetime: "pinned", signal: controller.signal, onProgress } as const;
    await assert.rejects(hub.load("x", testHub.folder.file("x.npy"), options), (error) => hasCode(error, "ABORTED"));
    testHub.kill("SIGCONT");
    await until("the name is free", async () => (await hub.list()).length === 0);
  });

  it("names the argument that is wrong", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const path = testHub.folder.file("x.npy");
    writeFolder(testHub.folder.path, { "x.npy": npyFile(Float32Array.of(1)) });
    await assert.rejects(hub.load("no/name", path), (error) => hasCode(error, "INVALID_NAME"));
    await assert.rejects(hub.load("x", undefined as unknown as string), /^TypeError: path must be a string/);
    await assert.rejects(hub.load("x", path, { format: "zip" as FileFormat }), /^TypeError: format must be "npy"/);
    await assert.rejects(hub.load("x", path, { dtype: "uint8" }), /^TypeError: dtype and shape are for raw bytes/);
    await assert.rejects(hub.load("x", path, { dtype: "int128" as "int8" }), {
      code: "UNSUPPORTED_DTYPE",
    });
    assert.equal((await hub.status()).objects, 0);
  });
});

describe("save", () => {
  checkLeaks();

  it("writes an array, a bundle, or one array of a bundle, by the format of the name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const file = (name: string) => testHub.folder.file(name);
    using _array = await hub.put("x", Float32Array.of(1, 2));
    const saved = await hub.save("x", file("x.npy"), { wait: false });
    assert.deepEqual(saved, {
      content: { kind: "array", dtype: "float32", shape: [2] },
      byteLength: 8,
      paths: [file("x.npy")],
    });
    assert.deepEqual(readFileSync(file("x.npy")), npyFile(Float32Array.of(1, 2)));
    await hub.save("x", file("x.bin"));
    assert.deepEqual(new Float32Array(new Uint8Array(readFileSync(file("x.bin"))).buffer), Float32Array.of(1, 2));
    const original = safetensorsFile(
      { a: { dtype: "uint8", shape: [3] }, b: { dtype: "int64", shape: [2] } },
      { k: "v" },
    );
    writeFolder(testHub.folder.path, { "m.safetensors": original });
    using _bundle = await hub.load("m", file("m.safetensors"));
    const { content } = await hub.save("m", file("copy.safetensors"));
    assert.deepEqual(content, { kind: "bundle", arrayCount: 2 });
    assert.deepEqual(readFileSync(file("copy.safetensors")), original);
    await hub.save("m", file("a.npy"), { array: "a" });
    assert.equal(readFileSync(file("a.npy")).byteLength, encodeNpyHeader("uint8", [3]).byteLength + 3);
  });

  it("writes a bundle to a folder of files with their index, which loads as the same bundle", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const folder = writeFolder(testHub.folder.file("model"), shardedModel());
    using original = await hub.load("model", folder, { format: "safetensors" });
    const copy = testHub.folder.file("copy");
    const steps: FileProgress[] = [];
    const saved = await hub.save("model", copy, { shardBytesMax: 30, onProgress: (step) => steps.push(step) });
    const names = [1, 2].map((n) => `model-0000${n}-of-00002.safetensors`);
    const all = [...names, "model.safetensors.index.json"];
    assert.deepEqual(
      saved.paths,
      all.map((name) => join(copy, name)),
    );
    assert.deepEqual(readdirSync(copy).sort(), all);
    assert.deepEqual([saved.byteLength, steps.at(-1)], [58, { doneBytes: 58, totalBytes: 58 }]);
    const index = JSON.parse(readFileSync(join(copy, all[2] as string), "utf8")) as unknown;
    assert.deepEqual(index, {
      metadata: { total_size: 58 },
      weight_map: { a: names[0], b: names[0], c: names[1], d: names[1] },
    });
    using again = await hub.load("again", copy, { format: "safetensors" });
    assert.deepEqual([again.names(), again.metadata], [original.names(), original.metadata]);
    for (const [name, array] of original) assert.deepEqual(await again.array(name).read(), await array.read());
    await hub.save("model", testHub.folder.file("one"), { shardBytesMax: 1000 });
    assert.deepEqual(readdirSync(testHub.folder.file("one")), ["model.safetensors"]);
  });

  it("leaves what is there alone, unless it is a file and it is told to replace it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using _x = await hub.put("x", Float32Array.of(1));
    using m = await hub.createBundle("m", { a: { dtype: "uint8", shape: [1] } });
    await m.publish();
    const path = testHub.folder.file("x.npy");
    writeFolder(testHub.folder.path, { "x.npy": "mine", "full/mine": "" });
    await assert.rejects(hub.save("x", path), (error) => hasCode(error, "FILE_EXISTS"));
    assert.equal(readFileSync(path, "utf8"), "mine");
    await hub.save("x", path, { force: true, durable: false });
    assert.deepEqual(readFileSync(path), npyFile(Float32Array.of(1)));
    const full = hub.save("m", testHub.folder.file("full"), { shardBytesMax: 10, force: true });
    await assert.rejects(full, (error) => hasCode(error, "FILE_EXISTS"));
    assert.deepEqual(readdirSync(testHub.folder.file("full")), ["mine"]);
  });

  it("refuses what the format cannot hold, and options that make no sense", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using _x = await hub.put("x", Float32Array.of(1));
    using m = await hub.createBundle("m", { a: { dtype: "bfloat16", shape: [1] } });
    await m.publish();
    const path = testHub.folder.file("out.npy");
    const refusals: readonly (readonly [string, SaveOptions, string])[] = [
      ["m", {}, "WRONG_KIND"],
      ["m", { array: "a" }, "UNSUPPORTED_DTYPE"],
      ["m", { array: "b" }, "NOT_FOUND"],
      ["x", { array: "a" }, "WRONG_KIND"],
      ["x", { shardBytesMax: 10 }, "WRONG_KIND"],
      ["absent", { wait: false }, "NOT_FOUND"],
    ];
    for (const [name, options, code] of refusals) {
      await assert.rejects(hub.save(name, path, options), { code }, `${name} ${JSON.stringify(options)}`);
    }
    const misuses: readonly SaveOptions[] = [
      { shardBytesMax: 0 },
      { shardBytesMax: Number.NaN },
      { shardBytesMax: 10, array: "a" },
      { shardBytesMax: 10, format: "npy" },
      { format: "zip" as FileFormat },
    ];
    for (const options of misuses) {
      await assert.rejects(
        hub.save("m", path, options),
        (error) => error instanceof TypeError || error instanceof RangeError,
      );
    }
    assert.equal(existsSync(path), false);
  });

  it("leaves nothing behind if it is aborted or takes too long, also of a folder", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const large = { dtype: "float32", shape: [4 * 1024 * 1024] } as const;
    using m = await hub.createBundle("m", { a: large, b: large });
    await m.publish();
    mkdirSync(testHub.folder.file("out"));
    const path = join(testHub.folder.file("out"), "m.safetensors");
    for (const shardBytesMax of [undefined, 1]) {
      const controller = new AbortController();
      const onProgress = ({ doneBytes }: FileProgress) => doneBytes > 0 && controller.abort();
      await assert.rejects(hub.save("m", path, { signal: controller.signal, onProgress, shardBytesMax }), {
        code: "ABORTED",
        message: `Cannot save "m" to "${path}": aborted`,
      });
      const late = hub.save("m", path, { timeoutMs: 0, shardBytesMax });
      await assert.rejects(late, (error) => hasCode(error, "TIMEOUT"));
      const { signal, onProgress: atTheEnd } = abortsAtTheEnd();
      const last = hub.save("m", path, { signal, onProgress: atTheEnd, shardBytesMax });
      await assert.rejects(last, (error) => hasCode(error, "ABORTED"));
      assert.deepEqual(readdirSync(testHub.folder.file("out")), []);
    }
  });
});
