import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { describe, it } from "node:test";
import type { DType } from "../../../src/array/dtype.js";
import { gatherElements } from "../../../src/array/strided-copy.js";
import { CudaIpcError, type SystemError } from "../../../src/base/errors.js";
import {
  encodeNpyHeader,
  type NpyHeader,
  parseNpyHeader,
  readNpyHeader,
} from "../../../src/files/npy-header.js";
import { expectedArrays, fixturePath } from "./fixture-file.js";
import { scratchFolder } from "./scratch-folder.js";

async function readHeader(path: string): Promise<NpyHeader> {
  const file = await open(path);
  try {
    return await readNpyHeader(file, path);
  } finally {
    await file.close();
  }
}

/** A file of version 1.0 with this header text and this many bytes of data. */
function npy(text: string, dataBytes = 0, version: readonly [number, number] = [1, 0]): Uint8Array {
  const length = version[0] === 1 ? [0, 0] : [0, 0, 0, 0];
  const bytes = Buffer.concat([
    Buffer.from([0x93, ...Buffer.from("NUMPY"), ...version, ...length]),
    Buffer.from(text, version[0] === 3 ? "utf8" : "latin1"),
    Buffer.alloc(dataBytes),
  ]);
  bytes.writeUIntLE(text.length, 8, length.length);
  return bytes;
}

const dict = (descr = "'<f4'", order = "False", shape = "(2, 3)") =>
  `{'descr': ${descr}, 'fortran_order': ${order}, 'shape': ${shape}, }\n`;

const parse = (bytes: Uint8Array) =>
  parseNpyHeader(bytes, { fileName: "x.npy", byteLength: bytes.byteLength });

function refuses(bytes: Uint8Array, message: RegExp, code = "INVALID_FILE"): void {
  assert.throws(
    () => parse(bytes),
    (error) => {
      assert.ok(error instanceof CudaIpcError, String(error));
      assert.equal(error.code, code);
      assert.match(error.message, /^Cannot read "x.npy": /);
      assert.match(error.message, message);
      return true;
    },
  );
}

describe("readNpyHeader", () => {
  for (const [name, expected] of Object.entries(expectedArrays().npy)) {
    it(`finds the elements of numpy's ${name}`, async () => {
      const path = fixturePath(`npy/${name}`);
      const header = await readHeader(path);
      assert.deepEqual([header.dtype, header.shape], [expected.dtype, expected.shape]);
      assert.equal(header.fortranOrder, expected.fortranOrder);
      const packed = new Uint8Array(header.dataByteLength);
      gatherElements(
        { ...header, byteOffset: header.dataByteOffset },
        { memory: readFileSync(path), packed },
      );
      assert.equal(Buffer.from(packed).toString("hex"), expected.hex);
    });
  }

  const reasons: Readonly<Record<string, RegExp>> = {
    "refused-big-endian.npy": /dtype ">f4" is big-endian; save it as <f4$/,
    "refused-structured.npy": /structured dtype/,
    "refused-object.npy": /"\|O" is pickled Python objects/,
    "refused-text.npy": /dtype "<U2", wanted one of \|b1, /,
    "refused-date.npy": /dtype "<M8\[D\]", wanted one of/,
    "refused-bfloat16.npy": /"<V2" does not say which type it is; use .safetensors/,
    "refused-float8_e4m3fn.npy": /"<V1" does not say which type it is; use .safetensors/,
    "refused-float8_e5m2.npy": /"<f1" does not say which type it is; use .safetensors/,
  };
  for (const name of readdirSync(fixturePath("npy")).filter((file) => file.startsWith("refused"))) {
    it(`says what is wrong with numpy's ${name}`, async () => {
      await assert.rejects(readHeader(fixturePath(`npy/${name}`)), {
        code: "UNSUPPORTED_DTYPE",
        message: reasons[name]!,
      });
    });
  }

  it("maps the system's errors", async () => {
    await assert.rejects(
      readHeader("."),
      (error: SystemError) =>
        error.code === "INVALID_FILE" && error.errnoName === "EISDIR" && error.cause !== undefined,
    );
  });

  it("reads nothing but the header and leaves the handle's position", async () => {
    using scratch = scratchFolder();
    const file = await open(scratch.write("x.npy", npy(dict(), 24)));
    await readNpyHeader(file, "x.npy");
    assert.equal((await file.read(new Uint8Array(1), 0, 1)).buffer[0], 0x93);
    await file.close();
  });
});

describe("parseNpyHeader", () => {
  it("reads dtypes, orders and shapes as numpy writes them", () => {
    assert.deepEqual(parse(npy(dict(), 24)), {
      dtype: "float32",
      shape: [2, 3],
      strides: [3, 1],
      fortranOrder: false,
      dataByteOffset: 10 + dict().length,
      dataByteLength: 24,
    });
    assert.deepEqual(parse(npy(dict("'|b1'", "True"), 6)).strides, [1, 2]);
    assert.deepEqual(parse(npy(dict("'<u1'", "False", "()"), 1)).shape, []);
    assert.deepEqual(parse(npy(dict("'|i1'", "False", "(7L,)"), 7)).shape, [7]);
    assert.deepEqual(
      parse(npy('{"shape":(0,5),"fortran_order":False,"descr":"<c16"}', 0)).shape,
      [0, 5],
    );
    assert.equal(parse(npy(dict(), 24, [2, 0])).dataByteOffset, 12 + dict().length);
    assert.equal(parse(npy(dict(), 24, [3, 0])).dtype, "float32");
  });

  it("refuses a header that is truncated at any byte", () => {
    const whole = npy(dict(), 24);
    for (let length = 0; length < whole.length; length += 1)
      refuses(whole.subarray(0, length), /./);
    refuses(whole.subarray(0, whole.length - 1), /header claims 24 bytes of data, file has 23$/);
  });

  it("refuses more data than the header claims", () => {
    refuses(npy(dict(), 25), /header claims 24 bytes of data, file has 25$/);
  });

  it("refuses headers that claim to be longer than the file or the limit", () => {
    const long = npy(dict(), 24);
    long.set([255, 255], 8);
    refuses(long, /header claims to end at byte 65545, file has \d+$/);
    const longer = npy(dict(), 24, [2, 0]);
    longer.set([255, 255, 255, 255], 8);
    refuses(longer, /header claims to be 4294967295 bytes, the limit is 65536$/);
  });

  it("refuses sizes that would overflow", () => {
    refuses(
      npy(dict(undefined, undefined, "(1000000000000000000,)"), 24),
      /shape\[0\] must be an integer from 0 to 2\^53 - 1/,
    );
    refuses(
      npy(dict(undefined, undefined, "(1000000000, 1000000000)"), 24),
      /over 2\^53 - 1 elements/,
    );
    refuses(npy(dict("'<c16'", undefined, "(1125899906842624,)"), 24), /over 2\^53 - 1 bytes/);
    refuses(npy(dict(undefined, undefined, "(4611686018427387906,)"), 24), /./);
    refuses(
      npy(dict(undefined, undefined, `(${"9".repeat(400)},)`), 24),
      /a number that is too long/,
    );
    refuses(
      npy(dict(undefined, undefined, `(${"1, ".repeat(33)})`), 4),
      /33 dimensions, the limit is 32/,
    );
  });

  const invalid: readonly (readonly [string, Uint8Array, RegExp])[] = [
    ["another magic", Buffer.from("PK\x03\x04 not an array"), /does not begin as an .npy file/],
    ["version 4.0", npy(dict(), 24, [4, 0]), /format version 4.0/],
    ["version 1.1", npy(dict(), 24, [1, 1]), /format version 1.1/],
    ["version 0.0", npy(dict(), 24, [0, 0]), /format version 0.0/],
    ["a missing key", npy("{'descr': '<f4', 'shape': (2, 3)}", 24), /keys "descr, shape", wanted/],
    [
      "one key more",
      npy(`${dict().slice(0, -4)}, 'x': 1}`, 24),
      /keys "descr, fortran_order, shape, x"/,
    ],
    ["a key twice", npy(`{'descr': '<f4', ${dict().slice(1)}`, 24), /key "descr" twice/],
    ["no dict", npy("('descr', '<f4')", 24), /wanted descr, fortran_order and shape/],
    ["text after the dict", npy(`${dict()}1`, 24), /text after the end/],
    ["an order that is no bool", npy(dict(undefined, "0"), 24), /fortran_order is neither/],
    ["a shape that is a number", npy(dict(undefined, undefined, "(6)"), 24), /shape is no tuple/],
    ["a shape that is a list", npy(dict(undefined, undefined, "[2, 3]"), 24), /shape is no tuple/],
    [
      "a negative size",
      npy(dict(undefined, undefined, "(-2, -3)"), 24),
      /something other than sizes/,
    ],
    [
      "a size that is a bool",
      npy(dict(undefined, undefined, "(True, 6)"), 24),
      /something other than sizes/,
    ],
    [
      "a size that is a fraction",
      npy(dict(undefined, undefined, "(2.0, 3)"), 24),
      /"," was expected/,
    ],
    ["a call", npy(dict(undefined, undefined, "tuple()"), 24), /a value was expected/],
    ["a leading zero", npy(dict(undefined, undefined, "(02, 3)"), 24), /"," was expected/],
    ["a string with an escape", npy(dict("'\\x3cf4'"), 24), /escape/],
    ["a string without its end", npy("{'descr", 24), /without its end/],
    ["a descr that is a number", npy(dict("4"), 24), /descr is no dtype/],
    ["a descr of None", npy(dict("None"), 24), /descr is no dtype/],
    ["deep nesting", npy(dict("[".repeat(1000)), 24), /nested too deep/],
    ["only a comma", npy(dict(undefined, undefined, "(,)"), 24), /a value was expected/],
    [
      "a byte order mark in version 3.0",
      npy(`\ufeff${dict()}`, 22, [3, 0]),
      /a value was expected at character 0/,
    ],
    [
      "bytes that are not UTF-8 in version 3.0",
      npy(dict(), 24, [3, 0]).fill(255, 20, 21),
      /not valid UTF-8/,
    ],
  ];
  for (const [what, bytes, message] of invalid)
    it(`refuses ${what}`, () => refuses(bytes, message));

  it("refuses unsupported dtypes, and says why", () => {
    refuses(npy(dict("'>i8'"), 48), /big-endian; save it as <i8/, "UNSUPPORTED_DTYPE");
    for (const descr of [
      "'=f4'",
      "'f4'",
      "'|f4'",
      "'<f16'",
      "'<i3'",
      "'|S5'",
      "''",
      "'<m8[ns]'",
      "'float32'",
      "'constructor'",
    ]) {
      refuses(
        npy(dict(descr), 24),
        /^Cannot read "x.npy": dtype ".*", wanted one of/,
        "UNSUPPORTED_DTYPE",
      );
    }
    refuses(
      npy(dict("[('a', '<f4', (2,)), ('b', [('c', '|u1')])]"), 24),
      /structured/,
      "UNSUPPORTED_DTYPE",
    );
    refuses(npy(dict("('<f4', (2,))"), 24), /structured/, "UNSUPPORTED_DTYPE");
  });
});

describe("encodeNpyHeader", () => {
  for (const [name, { dtype, shape, fortranOrder }] of Object.entries(expectedArrays().npy)) {
    if (name.startsWith("version")) continue;
    it(`gives the bytes of numpy's ${name}`, () => {
      const header = encodeNpyHeader(dtype, shape, { fortranOrder });
      const numpys = readFileSync(fixturePath(`npy/${name}`)).subarray(0, header.length);
      assert.deepEqual(Buffer.from(header), numpys);
    });
  }

  it("is a multiple of 64 bytes for all shapes", () => {
    for (let rank = 0; rank <= 32; rank += 1) {
      const shape = Array.from({ length: rank }, (_, i) => (i === 1 ? 123_456_789_012 : 1));
      const header = encodeNpyHeader("bool", shape);
      assert.equal(header.length % 64, 0);
      const facts = { fileName: "x", byteLength: header.length + (rank > 1 ? 123_456_789_012 : 1) };
      assert.deepEqual(parseNpyHeader(header, facts).shape, shape);
    }
  });

  it("refuses dtypes that numpy lacks, with a hint, and invalid shapes", () => {
    for (const dtype of ["bfloat16", "float8_e4m3fn", "float8_e5m2"] as const) {
      assert.throws(() => encodeNpyHeader(dtype, [1]), {
        code: "UNSUPPORTED_DTYPE",
        message: `Cannot write ${dtype} as .npy: numpy has no such dtype, use a .safetensors file`,
      });
    }
    assert.throws(() => encodeNpyHeader("int8", [-1]), RangeError);
    assert.throws(() => encodeNpyHeader("int8'" as DType, [1]), TypeError);
  });
});
