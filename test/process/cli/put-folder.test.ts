import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync, symlinkSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import {
  indexText,
  safetensorsFile,
  shardedModel,
  writeFolder,
} from "../../support/safetensors-files.js";
import { CliRig } from "./cli-rig.js";

describe("cuda-ipc put of a folder", () => {
  it("shares its safetensors files as one bundle, given the folder or its index", async () => {
    await using rig = await CliRig.open();
    writeFolder(rig.path("model"), shardedModel());
    assert.match(
      await rig.ok("put", "m", "model"),
      /^Shared "m": a bundle of 4 arrays, 285 bytes in /,
    );
    assert.match(
      await rig.ok("put", "n", "model/model.safetensors.index.json"),
      /^Shared "n": a bundle of 4 arrays/,
    );
    assert.match(
      await rig.ok("put", "m", "model", "--replace"),
      /^Replaced "m": a bundle of 4 arrays/,
    );
    await using hub = await rig.join();
    using bundle = await hub.openBundle("m", { wait: false });
    assert.deepEqual(bundle.names(), ["a", "b", "c", "d"]);
    assert.match(
      await rig.ok("get", "m", "one.safetensors"),
      /^Wrote one\.safetensors: a bundle of 4 arrays/,
    );
  });

  it("gets a bundle as a folder of shards with --shard-size, which put shares again", async () => {
    await using rig = await CliRig.open();
    writeFolder(rig.path("model"), shardedModel());
    await rig.ok("put", "m", "model");
    assert.match(
      await rig.ok("get", "m", "copy", "--shard-size", "30"),
      /^Wrote copy: a bundle of 4 arrays, 58 bytes in /,
    );
    assert.match(await rig.fails("FILE_EXISTS", "get", "m", "copy", "--shard-size", "30"), /copy/);
    const files = readdirSync(rig.path("copy"));
    assert.ok(files.includes("model.safetensors.index.json"));
    assert.ok(files.filter((file) => file.endsWith(".safetensors")).length > 1);
    await rig.ok("put", "again", "copy");
    await using hub = await rig.join();
    using put = await hub.openBundle("m", { wait: false });
    using again = await hub.openBundle("again", { wait: false });
    assert.deepEqual(again.names(), put.names());
    for (const [name, array] of put)
      assert.deepEqual(await again.array(name).read(), await array.read(), name);
  });

  it("names what is wrong with a folder, and leaves no name behind", async () => {
    await using rig = await CliRig.open();
    const model = shardedModel();
    writeFolder(rig.path("model"), model);
    await rig.fails("USAGE", "put", "m", "model", "--dtype", "uint8");
    await rig.fails("INVALID_FILE", "put", "m", "model", "--format", "npy");
    await writeFile(
      rig.path("model/model.safetensors.index.json"),
      indexText({ a: "../x.safetensors" }),
    );
    assert.match(
      await rig.fails("INVALID_FILE", "put", "m", "model"),
      /"\.\.\/x\.safetensors", which leads out/,
    );
    rmSync(rig.path("model/model.safetensors.index.json"));
    const said = await rig.fails("INVALID_FILE", "put", "m", "model");
    assert.match(
      said,
      /no index .*\n {2}hint: Name a file, or a folder of \.safetensors files with their index\.\n$/,
    );
    rmSync(rig.path("model"), { recursive: true });
    execFileSync("mkfifo", [rig.path("pipe.safetensors")]);
    writeFolder(rig.path("model"), {
      "model.safetensors.index.json": indexText({ a: "x.safetensors" }),
    });
    symlinkSync("../pipe.safetensors", rig.path("model/x.safetensors"));
    assert.match(
      await rig.fails("INVALID_FILE", "put", "m", "model"),
      /it is a link out of its folder/,
    );
    await rig.fails("USAGE", "put", "m", "pipe.safetensors");
    rmSync(rig.path("model/x.safetensors"));
    writeFolder(rig.path("store"), {
      blob: safetensorsFile({ a: { dtype: "uint8", shape: [1] } }),
    });
    symlinkSync("../store/blob", rig.path("model/x.safetensors"));
    const link = await rig.fails("INVALID_FILE", "put", "m", "model");
    assert.match(link, /it is a link out of its folder.*\n {2}hint: .*--allow-links/);
    await rig.ok("put", "m", "model", "--allow-links", "--preallocate");
    await rig.ok("rm", "m");
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });
});
