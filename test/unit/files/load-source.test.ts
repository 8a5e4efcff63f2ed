import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { LoadPlan } from "../../../src/files/load-plan.js";
import { LoadSource } from "../../../src/files/load-source.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { checkLeaks } from "../../support/leak-check.js";
import {
  indexText,
  safetensorsFile,
  shardedModel,
  writeFolder,
} from "../../support/safetensors-files.js";
import { scratchFolder } from "./scratch-folder.js";

const [FIRST, SECOND] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
const INDEX = "model.safetensors.index.json";
const one = safetensorsFile({ a: { dtype: "uint8", shape: [3] } });

async function planOf(
  path: string,
  options: Parameters<typeof LoadSource.open>[1] = {},
): Promise<LoadPlan> {
  await using source = await LoadSource.open(path, options);
  return source.plan;
}

function namesOf({ content }: LoadPlan): string[] {
  return content.kind === "bundle" ? [...content.layouts.keys()] : [];
}

async function refuses(path: string, words: RegExp): Promise<void> {
  await assert.rejects(planOf(path), (error: Error & { code?: string }) => {
    assert.equal(error.code, "INVALID_FILE", String(error));
    assert.match(error.message, words);
    return true;
  });
}

describe("a folder of safetensors files", () => {
  checkLeaks();

  it("becomes one bundle, with one move per file and the metadata on which all files agree", async () => {
    using scratch = scratchFolder();
    writeFolder(scratch.path, shardedModel());
    const plan = await planOf(scratch.path);
    assert.deepEqual(namesOf(plan), ["a", "b", "c", "d"]);
    assert.equal(plan.content.kind, "bundle");
    assert.deepEqual(plan.content.kind === "bundle" && plan.content.metadata, { format: "pt" });
    assert.deepEqual(
      plan.moves.map(({ file, memoryByteOffset, byteLength }) => [
        file,
        memoryByteOffset,
        byteLength,
      ]),
      [
        [0, 0, 29],
        [1, 256, 29],
      ],
    );
    assert.equal(plan.byteLength, 256 + 29);
    assert.deepEqual(await planOf(join(scratch.path, INDEX)), plan);
  });

  it("may have another name for its index, but not two indexes", async () => {
    using scratch = scratchFolder();
    writeFolder(scratch.path, shardedModel());
    const other = "diffusion_pytorch_model.safetensors.index.json";
    renameSync(join(scratch.path, INDEX), join(scratch.path, other));
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["a", "b", "c", "d"]);
    writeFolder(scratch.path, { "z.safetensors.index.json": indexText({ a: FIRST }) });
    await refuses(
      scratch.path,
      /the folder has 2 indexes \(diffusion.*, z\.safetensors.*\); name one of them/,
    );
    assert.deepEqual(namesOf(await planOf(join(scratch.path, "z.safetensors.index.json"))), [
      "a",
      "b",
    ]);
    writeFolder(scratch.path, { [INDEX]: indexText({ c: SECOND }) });
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["c", "d"]);
  });

  it("loads its only file without an index, and is refused if it has several", async () => {
    using scratch = scratchFolder();
    await refuses(scratch.path, /the folder has no \.safetensors file/);
    writeFolder(scratch.path, {
      "model.safetensors": one,
      "config.json": "{}",
      "._model.safetensors": "x",
    });
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["a"]);
    writeFolder(scratch.path, { "more.safetensors": one });
    await refuses(
      scratch.path,
      /has 2 \.safetensors files and no index .*\(model\.safetensors\.index\.json\)/,
    );
  });

  it("may have files in subfolders", async () => {
    using scratch = scratchFolder();
    writeFolder(scratch.path, {
      "sub/x.safetensors": one,
      [INDEX]: indexText({ a: "sub/x.safetensors" }),
    });
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["a"]);
  });

  it("aligns the arrays if a file does not", async () => {
    using scratch = scratchFolder();
    const header = JSON.stringify({
      odd: { dtype: "U8", shape: [3], data_offsets: [0, 3] },
      wide: { dtype: "F32", shape: [1], data_offsets: [3, 7] },
    });
    const odd = Buffer.concat([Buffer.alloc(8), Buffer.from(header), Buffer.alloc(7)]);
    odd.writeBigUInt64LE(BigInt(header.length));
    writeFolder(scratch.path, { "b.safetensors": odd, "a.safetensors": one });
    writeFolder(scratch.path, { [INDEX]: indexText({ a: "a.safetensors", odd: "b.safetensors" }) });
    const { moves, content } = await planOf(scratch.path);
    assert.deepEqual(
      moves.map(({ file, memoryByteOffset, byteLength }) => [file, memoryByteOffset, byteLength]),
      [
        [0, 0, 3],
        [1, 256, 3],
        [1, 512, 4],
      ],
    );
    assert.equal(content.kind === "bundle" && content.layouts.get("wide")?.byteOffset, 512);
  });

  it("is refused if a file is missing, truncated, or lacks an array of the index", async () => {
    using scratch = scratchFolder();
    const model = shardedModel();
    writeFolder(scratch.path, model);
    rmSync(join(scratch.path, SECOND));
    await refuses(scratch.path, /^Cannot read ".*model-00002-of-00002\.safetensors": no such file/);
    writeFileSync(join(scratch.path, SECOND), (model[SECOND] as Buffer).subarray(0, -1));
    await refuses(scratch.path, /00002\.safetensors": header claims 29 bytes of data, file has 28/);
    writeFileSync(
      join(scratch.path, SECOND),
      safetensorsFile({ c: { dtype: "uint8", shape: [1] } }),
    );
    await refuses(
      scratch.path,
      /00002\.safetensors": it has no array "d", which ".*index\.json" says is there/,
    );
    mkdirSync(join(scratch.path, "folder.safetensors"));
    writeFolder(scratch.path, { [INDEX]: indexText({ a: "folder.safetensors" }) });
    await refuses(scratch.path, /EISDIR/);
  });

  it("is refused if two files have an array of the same name", async () => {
    using scratch = scratchFolder();
    writeFolder(scratch.path, { "a.safetensors": one, "b.safetensors": one });
    const both = safetensorsFile({
      a: { dtype: "uint8", shape: [1] },
      b: { dtype: "uint8", shape: [1] },
    });
    writeFolder(scratch.path, { "b.safetensors": both });
    writeFolder(scratch.path, { [INDEX]: indexText({ a: "a.safetensors", b: "b.safetensors" }) });
    await refuses(scratch.path, /b\.safetensors": array "a" is in ".*a\.safetensors" as well/);
  });

  it("is refused if a name is a link out of the folder", async () => {
    using outside = scratchFolder();
    using scratch = scratchFolder();
    const target = outside.write("x.safetensors", one);
    symlinkSync(target, join(scratch.path, "x.safetensors"));
    symlinkSync(outside.path, join(scratch.path, "sub"));
    for (const file of ["x.safetensors", "sub/x.safetensors"]) {
      writeFolder(scratch.path, { [INDEX]: indexText({ a: file }) });
      await refuses(scratch.path, /it is a link out of its folder, to ".*x\.safetensors"/);
    }
    rmSync(join(scratch.path, INDEX));
    await refuses(scratch.path, /it is a link out of its folder/);
    symlinkSync(
      outside.write("index", indexText({ a: "x.safetensors" })),
      join(scratch.path, INDEX),
    );
    await refuses(scratch.path, /index\.json": it is a link out of its folder/);
    symlinkSync("loop.safetensors", join(scratch.path, "loop.safetensors"));
    rmSync(join(scratch.path, INDEX));
    writeFolder(scratch.path, { [INDEX]: indexText({ a: "loop.safetensors" }) });
    await refuses(scratch.path, /ELOOP/);
  });

  it("may be a link, and may contain links that stay inside", async () => {
    using outside = scratchFolder();
    using scratch = scratchFolder();
    writeFolder(scratch.path, {
      "real/x.safetensors": one,
      [INDEX]: indexText({ a: "y.safetensors" }),
    });
    symlinkSync("real/x.safetensors", join(scratch.path, "y.safetensors"));
    symlinkSync(scratch.path, join(outside.path, "link"));
    assert.deepEqual(namesOf(await planOf(join(outside.path, "link"))), ["a"]);
  });

  it("may be a Hugging Face snapshot, whose files link to blobs and nowhere else", async () => {
    using cache = scratchFolder();
    const snapshot = join(cache.path, "models--x", "snapshots", "0123");
    writeFolder(cache.path, {
      "models--x/blobs/b1": one,
      "models--x/blobs/b2": indexText({ a: "m.safetensors" }),
    });
    mkdirSync(snapshot, { recursive: true });
    symlinkSync("../../blobs/b1", join(snapshot, "m.safetensors"));
    symlinkSync("../../blobs/b2", join(snapshot, INDEX));
    assert.deepEqual(namesOf(await planOf(snapshot)), ["a"]);
    writeFolder(cache.path, { "models--x/refs/main": one });
    rmSync(join(snapshot, "m.safetensors"));
    symlinkSync("../../refs/main", join(snapshot, "m.safetensors"));
    await refuses(snapshot, /it is a link out of its folder/);
  });

  it("may be a part of a diffusers model in a Hugging Face snapshot", async () => {
    using cache = scratchFolder();
    const snapshot = join(cache.path, "models--x", "snapshots", "0123");
    writeFolder(cache.path, {
      "models--x/blobs/b1": one,
      "models--x/blobs/b2": indexText({ a: "m.safetensors" }),
    });
    for (const part of ["vae", "transformer", "deep/er"]) {
      const folder = join(snapshot, part);
      mkdirSync(folder, { recursive: true });
      const up = relative(folder, join(cache.path, "models--x", "blobs"));
      symlinkSync(join(up, "b1"), join(folder, "m.safetensors"));
      assert.deepEqual(namesOf(await planOf(folder)), ["a"]);
      if (part === "vae") continue;
      symlinkSync(join(up, "b2"), join(folder, INDEX));
      assert.deepEqual(namesOf(await planOf(folder)), ["a"]);
      assert.deepEqual(namesOf(await planOf(join(folder, INDEX))), ["a"]);
    }
  });

  it("may be made of links that lead anywhere with allowLinks", async () => {
    using store = scratchFolder();
    using scratch = scratchFolder();
    const model = shardedModel();
    writeFolder(store.path, model);
    for (const name of Object.keys(model))
      symlinkSync(join(store.path, name), join(scratch.path, name));
    await assert.rejects(
      planOf(scratch.path),
      (error) =>
        hasCode(error, "INVALID_FILE") &&
        error.remedy.includes("`allowLinks: true` (in commands: --allow-links)"),
    );
    for (const path of [scratch.path, join(scratch.path, INDEX)])
      assert.deepEqual(namesOf(await planOf(path, { allowLinks: true })), ["a", "b", "c", "d"]);
    rmSync(join(scratch.path, INDEX));
    symlinkSync("/nowhere", join(scratch.path, INDEX));
    await assert.rejects(planOf(scratch.path, { allowLinks: true }), { code: "INVALID_FILE" });
  });

  it("loads a variant if there is nothing else, or if its index is named", async () => {
    for (const variant of ["index.fp16.json", "fp16.index.json"]) {
      using scratch = scratchFolder();
      const index = `model.safetensors.${variant}`;
      writeFolder(scratch.path, {
        "model.fp16-00001-of-00001.safetensors": one,
        [index]: indexText({ a: "model.fp16-00001-of-00001.safetensors" }),
      });
      assert.deepEqual(namesOf(await planOf(scratch.path)), ["a"]);
      assert.deepEqual(namesOf(await planOf(join(scratch.path, index))), ["a"]);
      const whole = safetensorsFile({ whole: { dtype: "uint8", shape: [1] } });
      writeFolder(scratch.path, { "model.safetensors": whole });
      assert.deepEqual(namesOf(await planOf(scratch.path)), ["whole"]);
      writeFolder(scratch.path, shardedModel());
      assert.deepEqual(namesOf(await planOf(scratch.path)), ["a", "b", "c", "d"]);
      assert.deepEqual(namesOf(await planOf(join(scratch.path, index))), ["a"]);
    }
  });

  it("prefers the file without a variant", async () => {
    using scratch = scratchFolder();
    const fp16 = safetensorsFile({ half: { dtype: "uint8", shape: [1] } });
    writeFolder(scratch.path, { "m.safetensors": one, "m.fp16.safetensors": fp16 });
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["a"]);
    writeFolder(scratch.path, { "m.safetensors.index.fp32.json": indexText({ a: "x" }) });
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["a"]);
    rmSync(join(scratch.path, "m.safetensors.index.fp32.json"));
    writeFolder(scratch.path, { "m-00001-of-00002.safetensors": one });
    await refuses(scratch.path, /has 3 \.safetensors files and no index/);
    rmSync(join(scratch.path, "m-00001-of-00002.safetensors"));
    rmSync(join(scratch.path, "m.safetensors"));
    assert.deepEqual(namesOf(await planOf(scratch.path)), ["half"]);
  });

  it("does not wait for a named pipe instead of a file", async () => {
    using scratch = scratchFolder();
    const pipe = join(scratch.path, "x.safetensors");
    execFileSync("mkfifo", [pipe]);
    await refuses(scratch.path, /it is a named pipe, not an ordinary file/);
    writeFolder(scratch.path, { [INDEX]: indexText({ a: "x.safetensors" }) });
    await refuses(scratch.path, /it is a named pipe, not an ordinary file/);
    await refuses(pipe, /it is a named pipe, not an ordinary file/);
  });
});

describe("a single file", () => {
  checkLeaks();

  it("is refused if it is a device, or only claims to be empty", async () => {
    await refuses("/dev/zero", /its size cannot be known: it is a device/);
    await refuses("/proc/self/status", /its size cannot be known: it says 0 bytes/);
  });

  it("takes dtype and shape only for a raw file", async () => {
    using scratch = scratchFolder();
    const npy = scratch.write(
      "x.npy",
      Buffer.concat([encodeNpyHeader("uint8", [4]), Buffer.alloc(4)]),
    );
    for (const options of [{ dtype: "int8" }, { shape: [4] }] as const) {
      await assert.rejects(planOf(npy, options), TypeError);
      await assert.rejects(planOf(scratch.path, options), TypeError);
    }
    const plan = await planOf(npy, { format: "raw", dtype: "float32" });
    assert.equal(plan.byteLength, encodeNpyHeader("uint8", [4]).byteLength + 4);
    await refuses(join(scratch.path, "absent"), /no such file/);
    await assert.rejects(planOf(scratch.path, { format: "npy" }), {
      code: "INVALID_FILE",
      message: /it is a folder/,
    });
  });
});
