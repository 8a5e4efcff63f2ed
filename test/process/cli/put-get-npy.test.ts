import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import type { DType } from "../../../src/array/dtype.js";
import { encodeNpyHeader } from "../../../src/files/npy-header.js";
import { CliRig } from "./cli-rig.js";

/** An .npy file whose data are the bytes 0, 1, 2, ... */
function npyFile(dtype: DType, shape: number[], byteLength: number, fortranOrder = false): Buffer {
  const data = Uint8Array.from({ length: byteLength }, (_, i) => i % 251);
  return Buffer.concat([encodeNpyHeader(dtype, shape, { fortranOrder }), data]);
}

describe("cuda-ipc put and get of .npy", () => {
  const cases: readonly (readonly [string, Buffer, string])[] = [
    ["C order", npyFile("float32", [2, 3, 4], 96), "float32[2, 3, 4]"],
    ["Fortran order", npyFile("int64", [4, 6], 192, true), "int64[4, 6]"],
    ["a single element", npyFile("float64", [], 8), "float64[]"],
    ["no element", npyFile("float32", [0, 3], 0), "float32[0, 3]"],
    ["complex values", npyFile("complex128", [5], 80), "complex128[5]"],
    ["more than one piece", npyFile("uint16", [3, 4_000_001], 24_000_006), "uint16[3, 4000001]"],
    [
      "Fortran order of more than one piece",
      npyFile("uint16", [3, 4_000_001], 24_000_006, true),
      "uint16[3, 4000001]",
    ],
  ];
  for (const [what, file, words] of cases) {
    it(`returns ${what} byte for byte`, async () => {
      await using rig = await CliRig.open();
      await writeFile(rig.path("in.npy"), file);
      const said = await rig.ok("put", "x", "in.npy");
      assert.ok(said.startsWith(`Shared "x": ${words}, `), said);
      assert.match(said, / on host \(asked for by name\)\.\n$/);
      assert.match(await rig.ok("get", "x", "out.npy"), /^Wrote out\.npy: /);
      assert.equal(Buffer.compare(await readFile(rig.path("out.npy")), file), 0);
    });
  }

  it("waits with --wait for a name, also before a hub runs, and no longer than it says", async () => {
    await using rig = await CliRig.open();
    const said = await rig.fails("TIMEOUT", "get", "x", "out.npy", "--wait", "1ms");
    assert.match(said, /Cannot open "x": .*1 ms/);
    await rig.fails("USAGE", "get", "x", "out.npy", "--wait", "10");
    await rig.fails("USAGE", "get", "x", "out.npy", "--wait", "soon");
    const getting = rig.start("get", "x", "out.npy", "--wait", "2min");
    const file = npyFile("float32", [4], 16);
    await writeFile(rig.path("in.npy"), file);
    await rig.ok("put", "x", "in.npy");
    assert.deepEqual(await getting.outcome.then(({ code, stderr }) => [code, stderr]), [0, ""]);
    assert.equal(Buffer.compare(await readFile(rig.path("out.npy")), file), 0);
  });

  it("keeps the indices of elements of a Fortran file", async () => {
    await using rig = await CliRig.open();
    const data = new Uint8Array(Int32Array.of(11, 21, 12, 22, 13, 23).buffer);
    const header = encodeNpyHeader("int32", [2, 3], { fortranOrder: true });
    await writeFile(rig.path("in.npy"), Buffer.concat([header, data]));
    await rig.ok("put", "x", "in.npy");
    await using hub = await rig.join();
    using array = await hub.open("x");
    assert.deepEqual(array.strides, [1, 2]);
    assert.deepEqual([...(await array.read())], [11, 12, 13, 21, 22, 23]);
    await rig.ok("get", "x", "out.bin");
    assert.deepEqual(
      [...new Int32Array(new Uint8Array(await readFile(rig.path("out.bin"))).buffer)],
      [11, 12, 13, 21, 22, 23],
    );
  });

  it("takes raw bytes with the given dtype and shape", async () => {
    await using rig = await CliRig.open();
    await writeFile(
      rig.path("in.bin"),
      Uint8Array.from({ length: 24 }, (_, i) => i),
    );
    assert.match(await rig.ok("put", "plain", "in.bin"), /uint8\[24\]/);
    assert.match(await rig.ok("put", "typed", "in.bin", "--dtype", "float32"), /float32\[6\]/);
    assert.match(
      await rig.ok("put", "shaped", "in.bin", "--dtype", "uint16", "--shape", "3, 4"),
      /uint16\[3, 4\]/,
    );
    await rig.ok("get", "shaped", "out.bin");
    assert.deepEqual(await readFile(rig.path("out.bin")), await readFile(rig.path("in.bin")));
    const noMultiple = await rig.fails(
      "INVALID_FILE",
      "put",
      "x",
      "in.bin",
      "--dtype",
      "complex128",
    );
    assert.match(noMultiple, /24 bytes, no whole .+\n {2}hint: Correct --dtype or --shape\.\n$/);
    const otherSize = await rig.fails("INVALID_FILE", "put", "x", "in.bin", "--shape", "5");
    assert.match(otherSize, /uint8\[5\] has 5\.\n {2}hint: Correct --dtype or --shape\.\n$/);
  });

  it("refuses a malformed file, and leaves no name behind", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("bad.npy"), "no numpy");
    await writeFile(rig.path("short.npy"), npyFile("float32", [100], 96));
    assert.match(await rig.fails("INVALID_FILE", "put", "x", "absent.npy"), /hint: Check the path/);
    assert.match(
      await rig.fails("INVALID_FILE", "put", "x", "."),
      /hint: Name a file, or a folder of/,
    );
    await rig.fails("USAGE", "put", "x", "/dev/zero");
    await rig.fails("INVALID_FILE", "put", "x", "bad.npy");
    await rig.fails("INVALID_FILE", "put", "x", "short.npy");
    await rig.fails("USAGE", "put", "x", "short.npy", "--dtype", "uint8");
    await writeFile(rig.path("good.npy"), npyFile("float32", [24], 96));
    await rig.fails("INVALID_NAME", "put", "no/name", "good.npy");
    await rig.fails("INVALID_DEVICE", "put", "x", "good.npy", "--device", "gpu");
    assert.equal(await rig.ok("ls"), "Nothing is shared.\n");
  });

  it("takes an empty array, and refuses a file that wrongly claims to be empty", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("empty.bin"), "");
    assert.match(await rig.ok("put", "empty", "empty.bin"), /uint8\[0\]/);
    const said = await rig.fails("INVALID_FILE", "put", "x", "/proc/self/status");
    assert.match(
      said,
      /its size cannot be known.+\n {2}hint: Copy it to an ordinary file first\.\n$/,
    );
    assert.match(await rig.ok("ls"), /^NAME.+\nempty .+\n$/);
  });

  it("replaces a name only with --replace, and only by a valid file", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("a.npy"), npyFile("float32", [24], 96));
    await writeFile(rig.path("b.npy"), npyFile("int8", [10], 10));
    await writeFile(rig.path("bad.npy"), "no numpy");
    await rig.ok("put", "x", "a.npy");
    const taken = await rig.fails("NAME_TAKEN", "put", "x", "b.npy");
    assert.match(taken, /Cannot put "x": an array, number \d+, has this name\./);
    assert.match(taken, /\n {2}hint: Replace it with --replace, or choose another name\.\n$/);
    await using hub = await rig.join("producer.mjs");
    using _held = await hub.put("held", new Uint8Array(1));
    assert.match(
      await rig.fails("NAME_TAKEN", "put", "held", "b.npy"),
      new RegExp(`has this name, created by process ${process.pid} \\(producer\\.mjs\\)\\.`),
    );
    await rig.fails("INVALID_DEVICE", "put", "x", "b.npy", "--device", "gpu");
    await rig.fails("INVALID_FILE", "put", "x", "bad.npy", "--replace");
    assert.match(await rig.ok("inspect", "x"), /^x: float32\[24\]\n/);
    assert.match(await rig.ok("put", "x", "b.npy", "--replace"), /^Replaced "x": int8\[10\]/);
    await rig.ok("get", "x", "out.npy");
    assert.deepEqual(await readFile(rig.path("out.npy")), await readFile(rig.path("b.npy")));
    assert.match(await rig.ok("put", "new", "b.npy", "--replace"), /^Shared "new"/);
  });

  it("replaces a file only with --force", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("a.npy"), npyFile("float32", [24], 96));
    await writeFile(rig.path("there.npy"), "mine");
    await rig.ok("put", "x", "a.npy");
    assert.match(await rig.fails("FILE_EXISTS", "get", "x", "there.npy"), /hint: .+ --force\.\n$/);
    for (const path of [".", "/dev/null"]) {
      const said = await rig.fails("FILE_EXISTS", "get", "x", path, "--force");
      assert.match(said, /something other than a file is there\.\n {2}hint: Use another path\.\n$/);
    }
    assert.equal(await readFile(rig.path("there.npy"), "utf8"), "mine");
    await rig.ok("get", "x", "there.npy", "--force");
    assert.deepEqual(await readFile(rig.path("there.npy")), await readFile(rig.path("a.npy")));
  });

  it("takes an index, an archive or a pickle as raw bytes only with --format raw", async () => {
    await using rig = await CliRig.open();
    for (const name of ["model.bin.index.json", "a.npz", "a.gguf", "a.pt"]) {
      await writeFile(rig.path(name), "{}");
      for (const more of [[], ["--dtype", "uint8"]])
        assert.match(
          await rig.fails("INVALID_FILE", "put", "x", name, ...more),
          /: it is an? .*\n {2}hint: .*--format raw/,
        );
      await rig.ok("put", name, name, "--format", "raw");
      assert.match(
        await rig.fails("WRONG_KIND", "get", name, `copy-${name}`),
        /: the name is that of .*\n {2}hint: .*--format raw/,
      );
    }
  });

  it("names what a file cannot hold", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("in.bin"), new Uint8Array(8));
    await rig.ok("put", "x", "in.bin", "--dtype", "bfloat16");
    assert.match(
      await rig.fails("UNSUPPORTED_DTYPE", "get", "x", "out.npy"),
      /use a \.safetensors file/,
    );
    await rig.ok("get", "x", "out.safetensors");
    await rig.ok("put", "y", "out.safetensors");
    assert.match(await rig.ok("inspect", "y"), /^ {2}x {6}bfloat16\[4\]/m);
    await rig.fails("WRONG_KIND", "get", "x", "out2.npy", "--array", "a");
    await rig.fails("NOT_FOUND", "get", "absent", "out.npy");
  });
});
