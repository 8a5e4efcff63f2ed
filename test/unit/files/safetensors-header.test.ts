import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import {
  parseSafetensorsHeader,
  readSafetensorsHeader,
  type SafetensorsHeader,
  safetensorsTextBytes,
} from "../../../src/files/safetensors-header.js";
import { expectedArrays, fixturePath } from "./fixture-file.js";
import { scratchFolder } from "./scratch-folder.js";

async function readHeader(path: string): Promise<SafetensorsHeader> {
  const file = await open(path);
  try {
    return await readSafetensorsHeader(file, "x.safetensors");
  } finally {
    await file.close();
  }
}

function parse(text: string | Uint8Array, dataBytes: number): SafetensorsHeader {
  const bytes = Buffer.from(text as string);
  return parseSafetensorsHeader(bytes, {
    fileName: "x.safetensors",
    byteLength: 8 + bytes.length + dataBytes,
  });
}

function refuses(
  text: string | Uint8Array,
  message: RegExp,
  { code = "INVALID_FILE", dataBytes = 4 } = {},
): void {
  assert.throws(
    () => parse(text, dataBytes),
    (error) => {
      assert.ok(error instanceof CudaIpcError, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, /^Cannot read "x.safetensors": /);
      assert.match(error.message, message);
      return true;
    },
  );
}

/** A header with one array `a` of four bytes, or with the given fields instead. */
function one(changes: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ a: { dtype: "U8", shape: [4], data_offsets: [0, 4], ...changes } });
}

const u8 = (begin: number, end: number) => ({
  dtype: "U8",
  shape: [end - begin],
  data_offsets: [begin, end],
});

describe("readSafetensorsHeader", () => {
  for (const [name, arrays] of Object.entries(expectedArrays().safetensors)) {
    it(`finds the arrays of the reference's ${name}`, async () => {
      const path = fixturePath(`safetensors/${name}`);
      const header = await readHeader(path);
      const content = readFileSync(path);
      assert.equal(header.dataByteOffset + header.dataByteLength, content.length);
      const found = header.arrays.map(({ name, dtype, shape, byteOffset, byteLength }) => {
        const start = header.dataByteOffset + byteOffset;
        return [
          name,
          { dtype, shape, hex: content.subarray(start, start + byteLength).toString("hex") },
        ];
      });
      assert.deepEqual(Object.fromEntries(found), arrays);
      const metadata =
        name === "no-arrays.safetensors" ? [] : [["made by", 'numpy "and" ünicode\n']];
      assert.deepEqual([...header.metadata], metadata);
    });
  }

  it("refuses a file that is truncated at any byte", async () => {
    using scratch = scratchFolder();
    const whole = readFileSync(fixturePath("safetensors/every-dtype.safetensors"));
    for (const length of [0, 1, 7, 8, 9, 500, whole.length - 1]) {
      await assert.rejects(readHeader(scratch.write("cut", whole.subarray(0, length))), {
        code: "INVALID_FILE",
      });
    }
  });

  it("refuses a file that is truncated while it is read", async () => {
    using scratch = scratchFolder();
    const whole = readFileSync(fixturePath("safetensors/every-dtype.safetensors"));
    const file = await open(scratch.write("cut", whole.subarray(0, 200)));
    file.stat = (async () => ({ size: whole.length })) as never;
    await assert.rejects(readSafetensorsHeader(file, "x"), {
      code: "INVALID_FILE",
      message: /became shorter/,
    });
    await file.close();
  });

  it("refuses bytes after the data", async () => {
    using scratch = scratchFolder();
    const whole = readFileSync(fixturePath("safetensors/every-dtype.safetensors"));
    const longer = scratch.write("longer", Buffer.concat([whole, Buffer.of(0)]));
    await assert.rejects(readHeader(longer), {
      code: "INVALID_FILE",
      message: /header claims \d+ bytes of data, file has/,
    });
  });
});

describe("safetensorsTextBytes", () => {
  const prefix = (length: bigint) => new Uint8Array(BigUint64Array.of(length).buffer);

  it("refuses a header past the end of the file or the limit", () => {
    const facts = { fileName: "x", byteLength: 100 };
    assert.equal(safetensorsTextBytes(prefix(92n), facts), 92);
    assert.throws(
      () => safetensorsTextBytes(prefix(93n), facts),
      /header claims to be 93 bytes, file has 100$/,
    );
    for (const length of [100_000_001n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
      const message = `Cannot read "x": header claims to be ${length} bytes, the limit is 100000000`;
      assert.throws(() => safetensorsTextBytes(prefix(length), { ...facts, byteLength: 2 ** 53 }), {
        message,
      });
    }
  });
});

describe("parseSafetensorsHeader", () => {
  it("accepts arrays in any order, and returns them in the order of their data", () => {
    const text = JSON.stringify({
      b: u8(3, 4),
      empty: u8(3, 3),
      a: u8(0, 3),
      __metadata__: { k: "v" },
    });
    const header = parse(`${text}   `, 4);
    assert.deepEqual(
      header.arrays.map(({ name, byteOffset, byteLength }) => [name, byteOffset, byteLength]),
      [
        ["a", 0, 3],
        ["empty", 3, 0],
        ["b", 3, 1],
      ],
    );
    assert.equal(header.dataByteOffset, 8 + text.length + 3);
    assert.deepEqual([...header.metadata], [["k", "v"]]);
  });

  it("accepts unknown fields, null metadata and names like __proto__, as the reference does", () => {
    assert.equal(parse(one({ comment: [1.5, { x: null }] }), 4).arrays.length, 1);
    assert.equal(parse('{"__metadata__":null}', 0).metadata.size, 0);
    const names = ["__proto__", "constructor", "", "a\\u00e9\\n"];
    const entries = names.map((name, i) => `"${name}":${JSON.stringify(u8(i, i + 1))}`);
    const found = parse(`{${entries.join(",")}}`, 4).arrays.map(({ name }) => name);
    assert.deepEqual(found, ["__proto__", "constructor", "", "aé\n"]);
  });

  const invalid: readonly (readonly [string, string | Uint8Array, RegExp])[] = [
    ["no object", "[]", /does not begin with "{"/],
    ["spaces before the object", ` ${one()}`, /does not begin with "{"/],
    ["a byte order mark", `\ufeff${one()}`, /does not begin with "{"/],
    ["nothing", "", /does not begin with "{"/],
    ["an object without its end", one().slice(0, -1), /header is not valid: /],
    ["text after the object", `${one()}x`, /text after the end/],
    ["zeros after the object", `${one()}\0`, /text after the end/],
    [
      "bytes that are not UTF-8",
      Buffer.concat([Buffer.from(one()), Buffer.of(0xff)]),
      /not valid UTF-8/,
    ],
    [
      "an overlong encoding",
      Buffer.concat([Buffer.from('{"'), Buffer.of(0xc0, 0x80)]),
      /not valid UTF-8/,
    ],
    ["half a surrogate pair", `{"\\ud800":${JSON.stringify(u8(0, 4))}}`, /no Unicode/],
    ["a control character in a name", `{"a\n":${JSON.stringify(u8(0, 4))}}`, /control character/],
    ["a wrong escape", `{"\\x61":${JSON.stringify(u8(0, 4))}}`, /wrong escape/],
    ["deep nesting", `{"a":${"[".repeat(100_000)}`, /nested too deep/],
    ["a trailing comma", `${one().slice(0, -1)},}`, /a name was expected/],
    [
      "a name twice",
      `{"a":${JSON.stringify(u8(0, 4))},"a":${JSON.stringify(u8(0, 4))}}`,
      /name "a" twice/,
    ],
    [
      "a name twice in other words",
      `{"a":${JSON.stringify(u8(0, 4))},"\\u0061":${JSON.stringify(u8(0, 4))}}`,
      /name "a" twice/,
    ],
    [
      "a field twice",
      '{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
      /name "dtype" twice/,
    ],
    ["metadata twice", '{"__metadata__":{},"__metadata__":{}}', /name "__metadata__" twice/],
    ["metadata that are no object", '{"__metadata__":[]}', /__metadata__ is no object/],
    [
      "metadata that are no text",
      '{"__metadata__":{"a":1}}',
      /__metadata__ has "a" that is no string/,
    ],
    ["an entry that is no object", '{"a":["U8",[4],[0,4]]}', /array "a": its entry is no object/],
    ["a dtype that is no text", one({ dtype: 8 }), /dtype is no string/],
    ["no dtype", one({ dtype: undefined }), /dtype is no string/],
    ["no shape", one({ shape: undefined }), /shape is no list/],
    ["a negative size", one({ shape: [-4] }), /shape is no list of integers from 0/],
    ["a fraction as size", one({ shape: [1.5] }), /shape is no list/],
    ["1.0 as size", one().replace("[4]", "[4.0]"), /shape is no list/],
    ["4e0 as size", one().replace("[4]", "[4e0]"), /shape is no list/],
    ["-0 as size", one().replace("[4]", "[-0, 4]"), /shape is no list/],
    ["a leading zero", one().replace("[4]", "[04]"), /"," or "\]" was expected/],
    ["text as size", one({ shape: ["4"] }), /shape is no list/],
    ["null as size", one({ shape: [null] }), /shape is no list/],
    ["a list in the shape", one({ shape: [[4]] }), /shape is no list/],
    [
      "a size that is a safe integer only after rounding",
      one().replace("[4]", "[9007199254740993]"),
      /shape is no list/,
    ],
    ["one offset", one({ data_offsets: [0] }), /data_offsets are not two/],
    ["three offsets", one({ data_offsets: [0, 4, 4] }), /data_offsets are not two/],
    [
      "a negative offset",
      one({ data_offsets: [-4, 0] }),
      /data_offsets are not two integers from 0/,
    ],
    [
      "an end before the beginning",
      one({ data_offsets: [4, 0] }),
      /data end at 0 before they begin at 4/,
    ],
    [
      "an offset of 10^18",
      one({ data_offsets: [10 ** 18, 10 ** 18] }),
      /data_offsets are not two integers/,
    ],
    ["10^18 elements in two axes", one({ shape: [1e9, 1e9] }), /over 2\^53 - 1 elements/],
    [
      "10^18 elements in one axis",
      one().replace("[4]", "[1000000000000000000]"),
      /shape is no list/,
    ],
    [
      "a product that wraps to 4 in 64 bits",
      one({ shape: [2 ** 32, 2 ** 32, 4] }),
      /over 2\^53 - 1 elements/,
    ],
    ["bytes over 2^53", one({ dtype: "F64", shape: [2 ** 51] }), /over 2\^53 - 1 bytes/],
    ["33 axes", one({ shape: Array(33).fill(1) }), /33 dimensions, the limit is 32/],
    [
      "a shape other than the data",
      one({ shape: [3] }),
      /shape \[3\] of uint8 is 3 bytes, data_offsets span 4/,
    ],
    [
      "a shape smaller by its dtype",
      one({ dtype: "U16" }),
      /shape \[4\] of uint16 is 8 bytes, data_offsets span 4/,
    ],
    [
      "data past the end",
      one({ shape: [5], data_offsets: [0, 5] }),
      /header claims 5 bytes of data, file has 4/,
    ],
    [
      "data that stop before the end",
      one({ shape: [3], data_offsets: [0, 3] }),
      /header claims 3 bytes of data, file has 4/,
    ],
    ["no arrays with data", "{}", /header claims 0 bytes of data, file has 4/],
    [
      "a gap before the first",
      JSON.stringify({ a: u8(1, 4) }),
      /data of array "a" leave a gap: at 1, wanted 0/,
    ],
    [
      "a gap",
      JSON.stringify({ a: u8(0, 1), b: u8(2, 4) }),
      /data of array "b" leave a gap: at 2, wanted 1/,
    ],
    [
      "an overlap",
      JSON.stringify({ a: u8(0, 3), b: u8(2, 4) }),
      /"b" overlap the array before: at 2, wanted 3/,
    ],
    ["the same data twice", JSON.stringify({ a: u8(0, 4), b: u8(0, 4) }), /overlap/],
    ["an empty array outside", JSON.stringify({ a: u8(0, 4), b: u8(5, 5) }), /"b" leave a gap/],
    ["an empty array inside another", JSON.stringify({ a: u8(0, 4), b: u8(2, 2) }), /"b" overlap/],
  ];
  for (const [what, text, message] of invalid) it(`refuses ${what}`, () => refuses(text, message));

  it("takes dtypes that nothing here computes with as bytes", () => {
    const opaque: [string, number[], number[]][] = [
      ["F8_E8M0", [2, 2], [2, 2]],
      ["F8_E4M3FNUZ", [4], [4]],
      ["F8_E5M2FNUZ", [4, 1], [4, 1]],
      ["F4", [2, 4], [2, 2]],
      ["F4", [8, 1], [4]],
      ["F4", [0, 3], [0]],
      ["F6_E2M3", [2, 4], [2, 3]],
      ["F6_E3M2", [4, 1], [3]],
    ];
    for (const [dtype, shape, bytes] of opaque) {
      const byteLength = bytes.reduce((product, axis) => product * axis, 1);
      const text = one({ dtype, shape, data_offsets: [0, byteLength] });
      const [array] = parse(text, byteLength).arrays;
      const expected = { dtype: "uint8", shape: bytes, opaque: { dtype, shape } };
      assert.deepEqual(array, { name: "a", byteOffset: 0, byteLength, ...expected });
    }
    refuses(one({ dtype: "F4", shape: [3] }), /no whole number of bytes/);
    refuses(one({ dtype: "F8_E8M0", shape: [5] }), /of F8_E8M0 is 5 bytes, data_offsets span 4/);
  });

  it("refuses unsupported dtypes, and names array and dtype", () => {
    for (const dtype of ["F5", "F8_E8M1", "C128", "u8", "constructor", ""]) {
      const message = new RegExp(`array "a" has dtype "${dtype}", wanted one of BOOL, U8`);
      refuses(one({ dtype }), message, { code: "UNSUPPORTED_DTYPE" });
    }
  });

  it("shortens long names in messages", () => {
    assert.throws(
      () => parse(JSON.stringify({ ["n".repeat(10_000)]: { dtype: "x".repeat(10_000) } }), 0),
      (error) => error instanceof Error && error.message.length < 1000,
    );
  });
});
