import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import type { DType } from "../../../src/array/dtype.js";
import { arrayByteLength } from "../../../src/array/layout.js";
import {
  encodeSafetensorsHeader,
  planSafetensors,
} from "../../../src/files/safetensors-encoding.js";
import type { SafetensorsArray } from "../../../src/files/safetensors-header.js";
import { CliRig } from "./cli-rig.js";

interface Wanted {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

const wanted: readonly Wanted[] = [
  { name: "layer.weight", dtype: "bfloat16", shape: [64, 33] },
  { name: "layer.bias", dtype: "float32", shape: [33] },
  { name: "ids", dtype: "int64", shape: [7] },
  { name: "mask", dtype: "bool", shape: [13] },
  { name: "10", dtype: "float8_e4m3fn", shape: [5] },
  { name: "9", dtype: "uint8", shape: [0] },
  { name: "scalar", dtype: "float64", shape: [] },
];

function safetensorsFile(
  arrays: readonly SafetensorsArray[],
  metadata: Record<string, string>,
): Buffer {
  const byteLength = arrays.reduce((sum, array) => sum + array.byteLength, 0);
  const data = Uint8Array.from({ length: byteLength }, (_, i) => (i * 7) % 2);
  return Buffer.concat([encodeSafetensorsHeader(arrays, new Map(Object.entries(metadata))), data]);
}

/** In the given order, aligned or not. */
function packed(arrays: readonly Wanted[]): SafetensorsArray[] {
  let byteOffset = 0;
  return arrays.map((array) => {
    const placed = { ...array, byteOffset, byteLength: arrayByteLength(array.dtype, array.shape) };
    byteOffset += placed.byteLength;
    return placed;
  });
}

describe("cuda-ipc put and get of .safetensors", () => {
  it("returns a file byte for byte", async () => {
    await using rig = await CliRig.open();
    const file = safetensorsFile(planSafetensors(wanted).arrays, { format: "pt", note: "a\nb" });
    await writeFile(rig.path("in.safetensors"), file);
    assert.match(await rig.ok("put", "m", "in.safetensors"), /^Shared "m": a bundle of 7 arrays, /);
    assert.match(
      await rig.ok("get", "m", "out.safetensors"),
      /^Wrote out\.safetensors: a bundle of 7 arrays, /,
    );
    assert.equal(Buffer.compare(await readFile(rig.path("out.safetensors")), file), 0);
  });

  it("returns a file without arrays", async () => {
    await using rig = await CliRig.open();
    const file = safetensorsFile([], { only: "metadata" });
    await writeFile(rig.path("in.safetensors"), file);
    await rig.ok("put", "m", "in.safetensors");
    assert.match(await rig.ok("inspect", "m"), /metadata +only: metadata\n.*\n\n {2}no arrays\n$/s);
    await rig.ok("get", "m", "out.safetensors");
    assert.deepEqual(await readFile(rig.path("out.safetensors")), file);
  });

  it("aligns arrays that are unaligned in the file, and orders them by alignment", async () => {
    await using rig = await CliRig.open();
    const mixed: Wanted[] = [
      { name: "odd", dtype: "bool", shape: [3] },
      { name: "wide", dtype: "float32", shape: [5] },
    ];
    const file = safetensorsFile(packed(mixed), {});
    await writeFile(rig.path("in.safetensors"), file);
    await rig.ok("put", "m", "in.safetensors");
    await using hub = await rig.join();
    using bundle = await hub.openBundle("m");
    assert.deepEqual(bundle.names(), ["odd", "wide"]);
    const wide = Buffer.from(((await bundle.array("wide").read()) as Float32Array).buffer);
    assert.equal(Buffer.compare(wide, file.subarray(-20)), 0);
    await rig.ok("get", "m", "out.safetensors");
    const again = await readFile(rig.path("out.safetensors"));
    assert.equal(
      Buffer.compare(
        again.subarray(-23),
        Buffer.concat([file.subarray(-20), file.subarray(-23, -20)]),
      ),
      0,
    );
  });

  it("writes one array of a bundle", async () => {
    await using rig = await CliRig.open();
    await writeFile(
      rig.path("in.safetensors"),
      safetensorsFile(planSafetensors(wanted).arrays, {}),
    );
    await rig.ok("put", "m", "in.safetensors");
    assert.match(await rig.ok("get", "m", "ids.npy", "--array", "ids"), /int64\[7\]/);
    await rig.ok("put", "ids", "ids.npy");
    await rig.fails("NOT_FOUND", "get", "m", "x.npy", "--array", "absent");
    await rig.fails("UNSUPPORTED_DTYPE", "get", "m", "x.npy", "--array", "layer.weight");
    assert.match(await rig.fails("WRONG_KIND", "get", "m", "x.npy"), /--array/);
  });

  it("refuses a broken file", async () => {
    await using rig = await CliRig.open();
    const file = safetensorsFile(planSafetensors(wanted).arrays, {});
    await writeFile(rig.path("cut.safetensors"), file.subarray(0, file.length - 1));
    await rig.fails("INVALID_FILE", "put", "m", "cut.safetensors");
  });
});
