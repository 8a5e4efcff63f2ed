import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { decodeToFloat32, encodeFromFloat32 } from "../../src/array/small-floats.js";
import { scratchFolder } from "../unit/files/scratch-folder.js";
import { python, skipWithoutPython } from "./python.js";

const script = `
dtype, folder = named(sys.argv[1]), sys.argv[2]
bits = dtype.itemsize * 8
np.arange(2**bits).astype(f"u{dtype.itemsize}").view(dtype).astype("f4").tofile(folder + "/decoded")
random = np.random.default_rng(11)
source = random.integers(0, 2**32, 400_000, "u4")
# Half of them with exponents near those of the format, where rounding and subnormals are.
source[::2] = (source[::2] & 0x807fffff) | (random.integers(127 - 30, 127 + 20, source[::2].size).astype("u4") << 23)
# And some of these with few bits, which are ties.
source[::4] &= 0xfffff000
source.tofile(folder + "/source")
source.view("f4").astype(dtype).view(f"u{dtype.itemsize}").tofile(folder + "/encoded")
doubles = random.normal(size=100_000) * 10.0 ** random.integers(-9, 6, 100_000)
doubles.tofile(folder + "/doubles")
doubles.astype("f2").view("u2").tofile(folder + "/float16-of-doubles")
`;

function read<A>(path: string, arrayType: new (buffer: ArrayBuffer) => A): A {
  return new arrayType(Uint8Array.from(readFileSync(path)).buffer);
}

describe("small floats and ml_dtypes", { skip: skipWithoutPython }, () => {
  for (const dtype of ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"] as const) {
    it(`decodes every bit pattern of ${dtype} and encodes 400,000 float32s as it does`, () => {
      using scratch = scratchFolder();
      python(script, dtype, scratch.path);
      const readBits = (name: string): Uint8Array | Uint16Array =>
        dtype.startsWith("float8")
          ? read(join(scratch.path, name), Uint8Array)
          : read(join(scratch.path, name), Uint16Array);
      const patterns = (count: number) =>
        (count === 256 ? new Uint8Array(256) : new Uint16Array(65536)).map((_, i) => i);
      const decode = (bits: Uint8Array | Uint16Array) => decodeToFloat32(dtype, bits as never);

      const wantedFloats = read(`${scratch.path}/decoded`, Float32Array);
      const decoded = decode(patterns(wantedFloats.length));
      assert.ok(wantedFloats.every((value, i) => Object.is(value, decoded[i])));

      const source = read(`${scratch.path}/source`, Float32Array);
      const wanted = readBits("encoded");
      const encoded = encodeFromFloat32(dtype, source);
      const [ourValues, theirValues] = [decode(encoded), decode(wanted)];
      const different = source.findIndex(
        (_, i) => encoded[i] !== wanted[i] && !Object.is(ourValues[i], theirValues[i]),
      );
      assert.equal(
        different,
        -1,
        `${source[different]} is ${encoded[different]}, wanted ${wanted[different]}`,
      );
    });
  }

  it("rounds float64 to float16 once, as numpy does", () => {
    using scratch = scratchFolder();
    python(script, "float16", scratch.path);
    const doubles = read(`${scratch.path}/doubles`, Float64Array);
    assert.deepEqual(
      encodeFromFloat32("float16", [...doubles]),
      read(`${scratch.path}/float16-of-doubles`, Uint16Array),
    );
  });
});
