import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { FileProgress, SaveOptions } from "../../../src/client/hub-options.js";
import type { FileFormat } from "../../../src/files/file-format.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { checkLeaks } from "../../support/leak-check.js";
import { safetensorsFile, shardedModel, writeFolder } from "../../support/safetensors-files.js";
import { TestHub } from "../../support/test-hub.js";
import { abortsAtTheEnd, npyFile } from "./load-rig.js";

describe("save", () => {
  checkLeaks();

  it("writes an array, a bundle, or one array of a bundle, as the name's format says", async () => {
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
    assert.deepEqual(
      new Float32Array(new Uint8Array(readFileSync(file("x.bin"))).buffer),
      Float32Array.of(1, 2),
    );
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
    assert.equal(
      readFileSync(file("a.npy")).byteLength,
      encodeNpyHeader("uint8", [3]).byteLength + 3,
    );
  });

  it("writes dtypes that nothing here computes with as they came", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const header = {
      __metadata__: { k: "v" },
      scale: { dtype: "F8_E8M0", shape: [2, 2], data_offsets: [0, 4] },
      packed: { dtype: "F4", shape: [8, 1], data_offsets: [4, 8] },
      weight: { dtype: "U8", shape: [4], data_offsets: [8, 12] },
    };
    const text = Buffer.from(JSON.stringify(header));
    const padded = Buffer.alloc(Math.ceil(text.byteLength / 8) * 8, " ");
    text.copy(padded);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(padded.byteLength));
    const original = Buffer.concat([length, padded, Buffer.from("scalpackdata")]);
    writeFolder(testHub.folder.path, { "m.safetensors": original });
    using bundle = await hub.load("m", testHub.folder.file("m.safetensors"), {
      format: "safetensors",
    });
    const scale = bundle.array("scale");
    assert.deepEqual([scale.dtype, scale.shape], ["uint8", [2, 2]]);
    assert.deepEqual(
      Buffer.from((await bundle.array("packed").read()) as Uint8Array).toString(),
      "pack",
    );
    assert.equal(bundle.metadata["cuda-ipc.dtype:packed"], '{"dtype":"F4","shape":[8,1]}');
    await hub.save("m", testHub.folder.file("copy.safetensors"));
    assert.deepEqual(readFileSync(testHub.folder.file("copy.safetensors")), original);
  });

  it("writes a bundle to a folder of files, which loads as the same bundle", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const folder = writeFolder(testHub.folder.file("model"), shardedModel());
    using original = await hub.load("model", folder, { format: "safetensors" });
    const copy = testHub.folder.file("copy");
    const steps: FileProgress[] = [];
    const saved = await hub.save("model", copy, {
      shardBytesMax: 30,
      onProgress: (step) => steps.push(step),
    });
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
    for (const [name, array] of original)
      assert.deepEqual(await again.array(name).read(), await array.read());
    await hub.save("model", testHub.folder.file("one"), { shardBytesMax: 1000 });
    assert.deepEqual(readdirSync(testHub.folder.file("one")), ["model.safetensors"]);
  });

  it("refuses an existing path unless it is a file and `replace` is set", async () => {
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

  it("refuses content that the format cannot hold, and senseless options", async () => {
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
      await assert.rejects(
        hub.save(name, path, options),
        { code },
        `${name} ${JSON.stringify(options)}`,
      );
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

  it("writes and loads raw bytes under the name of an archive only if told so", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using _x = await hub.put("x", Uint8Array.of(1, 2, 3));
    const path = testHub.folder.file("x.npz");
    await assert.rejects(hub.save("x", path), { code: "WRONG_KIND" });
    assert.equal(existsSync(path), false);
    await hub.save("x", path, { format: "raw" });
    await assert.rejects(hub.load("y", path), { code: "INVALID_FILE" });
    await assert.rejects(hub.load("y", path, { dtype: "uint8" }), { code: "INVALID_FILE" });
    using y = await hub.load("y", path, { format: "raw" });
    assert.deepEqual(await y.read(), Uint8Array.of(1, 2, 3));
  });

  it("leaves no file or folder behind if it is aborted or times out", async () => {
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
      await assert.rejects(
        hub.save("m", path, { signal: controller.signal, onProgress, shardBytesMax }),
        {
          code: "ABORTED",
          message: `Cannot save "m" to "${path}": aborted`,
        },
      );
      const late = hub.save("m", path, { timeoutMs: 0, shardBytesMax });
      await assert.rejects(late, (error) => hasCode(error, "TIMEOUT"));
      const { signal, onProgress: atTheEnd } = abortsAtTheEnd();
      const last = hub.save("m", path, { signal, onProgress: atTheEnd, shardBytesMax });
      await assert.rejects(last, (error) => hasCode(error, "ABORTED"));
      assert.deepEqual(readdirSync(testHub.folder.file("out")), []);
    }
  });
});
