import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type DType, dtypeNames } from "../../../src/array/dtype.js";
import { arrayByteLength } from "../../../src/array/layout.js";
import { CudaIpcError } from "../../../src/base/errors.js";
import { encodeNpyHeader, parseNpyHeader } from "../../../src/files/npy-header.js";
import {
  encodeSafetensorsHeader,
  planSafetensors,
} from "../../../src/files/safetensors-encoding.js";
import {
  parseSafetensorsHeader,
  safetensorsTextBytes,
} from "../../../src/files/safetensors-header.js";

const shapes = fc.array(fc.nat({ max: 9 }), { maxLength: 5 });
const npyDTypes = fc.constantFrom<DType>(
  ...dtypeNames.filter((name) => !/^bfloat|^float8/.test(name)),
);
const safetensorsDTypes = fc.constantFrom<DType>(
  ...dtypeNames.filter((name) => name !== "complex128"),
);
const names = fc
  .string({ unit: "binary", maxLength: 12 })
  .filter((name) => name !== "__metadata__");
const text = fc.string({ unit: "binary", maxLength: 12 });

/** Runs a parser on any bytes. It must return, or throw one of the two errors of files. */
function readsOrRefuses(read: () => void): void {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof CudaIpcError, `threw ${String(error)}`);
    assert.ok(error.code === "INVALID_FILE" || error.code === "UNSUPPORTED_DTYPE", error.code);
  }
}

function readNpy(bytes: Uint8Array): void {
  const header = parseNpyHeader(bytes, { fileName: "x", byteLength: bytes.length });
  assert.equal(header.dataByteOffset + header.dataByteLength, bytes.length);
  assert.equal(arrayByteLength(header.dtype, header.shape), header.dataByteLength);
}

function readSafetensors(bytes: Uint8Array): void {
  const facts = { fileName: "x", byteLength: bytes.length };
  const textBytes = safetensorsTextBytes(bytes.subarray(0, 8), facts);
  const header = parseSafetensorsHeader(bytes.subarray(8, 8 + textBytes), facts);
  let covered = 0;
  for (const { dtype, shape, byteOffset, byteLength } of header.arrays) {
    assert.equal(byteOffset, covered);
    assert.equal(arrayByteLength(dtype, shape), byteLength);
    covered += byteLength;
  }
  assert.equal(header.dataByteOffset + covered, bytes.length);
}

/** Changes at random places: a byte is set, or bytes are removed or inserted. */
const mutations = fc.array(
  fc.record({
    at: fc.nat({ max: 400 }),
    remove: fc.nat({ max: 3 }),
    insert: fc.oneof(
      fc.uint8Array({ maxLength: 3 }),
      fc
        .constantFrom(
          "0",
          "-1",
          "9".repeat(19),
          "1e9",
          "[",
          "]",
          "{",
          "}",
          ",",
          '"',
          "'",
          "null",
          "(",
          ")",
        )
        .map((token) => Buffer.from(token)),
    ),
  }),
  { minLength: 1, maxLength: 4 },
);

function mutate(
  bytes: Uint8Array,
  changes: readonly { at: number; remove: number; insert: Uint8Array }[],
): Uint8Array {
  let result = Buffer.from(bytes);
  for (const { at, remove, insert } of changes) {
    const start = at % (result.length + 1);
    result = Buffer.concat([result.subarray(0, start), insert, result.subarray(start + remove)]);
  }
  return result;
}

function npyFile(dtype: DType, shape: readonly number[]): Uint8Array {
  return Buffer.concat([
    encodeNpyHeader(dtype, shape),
    new Uint8Array(arrayByteLength(dtype, shape)),
  ]);
}

const entries = fc.uniqueArray(
  fc.record({ name: names, dtype: safetensorsDTypes, shape: shapes }),
  {
    selector: ({ name }) => name,
    maxLength: 6,
  },
);

function safetensorsFile(arrays: Parameters<typeof planSafetensors>[0]): Uint8Array {
  const plan = planSafetensors(arrays);
  return Buffer.concat([encodeSafetensorsHeader(plan.arrays), new Uint8Array(plan.dataByteLength)]);
}

describe("parseNpyHeader", () => {
  it("reads back what encodeNpyHeader writes", () => {
    fc.assert(
      fc.property(npyDTypes, shapes, fc.boolean(), (dtype, shape, fortranOrder) => {
        const bytes = encodeNpyHeader(dtype, shape, { fortranOrder });
        const dataByteLength = arrayByteLength(dtype, shape);
        const facts = { fileName: "x", byteLength: bytes.length + dataByteLength };
        const { strides: _, ...header } = parseNpyHeader(bytes, facts);
        assert.deepEqual(header, {
          dtype,
          shape,
          fortranOrder,
          dataByteOffset: bytes.length,
          dataByteLength,
        });
      }),
    );
  });

  it("throws only its own errors for mutated files, and accepts only consistent ones", () => {
    fc.assert(
      fc.property(npyDTypes, shapes, mutations, (dtype, shape, changes) => {
        const bytes = mutate(npyFile(dtype, shape), changes);
        readsOrRefuses(() => readNpy(bytes));
      }),
      { numRuns: 3000 },
    );
  });

  it("throws only its own errors for any bytes and any header text", () => {
    const preamble = Buffer.from("\x93NUMPY\x01\0", "latin1");
    const withText = fc.string({ unit: "binary-ascii", maxLength: 80 }).map((header) => {
      return Buffer.concat([preamble, Buffer.of(header.length, 0), Buffer.from(header)]);
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 64 }), withText), (bytes) =>
        readsOrRefuses(() => readNpy(bytes)),
      ),
      { numRuns: 2000 },
    );
  });
});

describe("parseSafetensorsHeader", () => {
  it("reads back what encodeSafetensorsHeader writes", () => {
    fc.assert(
      fc.property(entries, fc.dictionary(text, text), (arrays, metadata) => {
        const plan = planSafetensors(arrays);
        const wanted = new Map(Object.entries(metadata));
        const bytes = encodeSafetensorsHeader(plan.arrays, wanted);
        const facts = { fileName: "x", byteLength: bytes.length + plan.dataByteLength };
        const header = parseSafetensorsHeader(bytes.subarray(8), facts);
        const order = (array: { readonly name: string }) => array.name;
        assert.deepEqual(
          new Map(header.arrays.map((array) => [order(array), array])),
          new Map(plan.arrays.map((array) => [order(array), array])),
        );
        assert.deepEqual(header.metadata, wanted);
        assert.equal(header.dataByteOffset, bytes.length);
      }),
    );
  });

  it("throws only its own errors for mutated files, and accepts only consistent ones", () => {
    fc.assert(
      fc.property(entries, mutations, (arrays, changes) => {
        const whole = mutate(safetensorsFile(arrays), changes);
        readsOrRefuses(() => readSafetensors(whole));
      }),
      { numRuns: 3000 },
    );
  });

  it("throws only its own errors for any text", () => {
    const anyText = fc.oneof(
      fc.json(),
      fc.string({ unit: "binary", maxLength: 60 }).map((rest) => `{${rest}`),
    );
    fc.assert(
      fc.property(anyText, fc.nat({ max: 8 }), (header, dataBytes) => {
        const json = Buffer.from(header);
        const facts = { fileName: "x", byteLength: 8 + json.length + dataBytes };
        readsOrRefuses(() => parseSafetensorsHeader(json, facts));
      }),
      { numRuns: 2000 },
    );
  });
});
