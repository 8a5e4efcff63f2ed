import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  parseCount,
  parseDTypeName,
  parsePositive,
  parseShape,
} from "../../../../src/cli/arguments.js";
import { numberText, valueTexts } from "../../../../src/cli/inspect/array-values.js";
import { alignRows, formatTable } from "../../../../src/cli/terminal/table.js";
import {
  ageWords,
  durationWords,
  idleWords,
  plural,
  shortened,
  sizeWords,
  transferWords,
  withoutLoaderWords,
} from "../../../../src/cli/terminal/words.js";

function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

describe("formatTable", () => {
  it("makes columns as wide as their widest cell, without trailing spaces", () => {
    const columns = [
      { title: "NAME" },
      { title: "SIZE", align: "right" },
      { title: "AGE" },
    ] as const;
    assert.deepEqual(
      formatTable(columns, [
        ["a", "1 KiB", "3 s"],
        ["longer", "5", ""],
      ]),
      ["NAME     SIZE  AGE", "a       1 KiB  3 s", "longer      5"],
    );
  });

  it("prints only the titles if there are no rows", () => {
    assert.deepEqual(formatTable([{ title: "NAME" }], []), ["NAME"]);
    assert.deepEqual(alignRows([]), []);
  });
});

describe("words", () => {
  it("give times in a readable unit", () => {
    assert.deepEqual([0.0001, 0.5, 1.25, 15.4, 999, 1000, 61_500].map(durationWords), [
      "1 us",
      "500 us",
      "1.3 ms",
      "15 ms",
      "999 ms",
      "1 s",
      "61.5 s",
    ]);
    assert.deepEqual(
      [-5, 59_999, 60_000, 3_600_000, 47 * 3_600_000, 48 * 3_600_000].map(ageWords),
      ["0 s", "59 s", "1 min", "1 h", "47 h", "2 d"],
    );
  });

  it("give a speed only for large transfers", () => {
    assert.equal(transferWords(100, 1), "100 bytes in 1.0 ms");
    assert.equal(transferWords(2 ** 30, 500), "1 GiB in 500 ms, 2.0 GiB/s");
    assert.equal(transferWords(2 ** 24, 1600), "16 MiB in 1.6 s, 10.0 MiB/s");
  });

  it("say when an idle hub ends", () => {
    assert.equal(idleWords(0), "ends as soon as it is idle");
    assert.equal(idleWords(5000), "ends after 5 s idle");
  });

  it("shorten long text", () => {
    assert.equal(shortened("abcdef", 6), "abcdef");
    assert.equal(shortened("abcdefg", 6), "abc...");
    assert.equal(shortened("abcdefg", Number.POSITIVE_INFINITY), "abcdefg");
  });

  it("count bytes", () => {
    assert.deepEqual([0, 1, 2, 2048].map(sizeWords), ["0 bytes", "1 byte", "2 bytes", "2 KiB"]);
    assert.equal(transferWords(1, 1), "1 byte in 1.0 ms");
  });

  it("count", () => {
    assert.deepEqual(
      [plural(0, "lease"), plural(1, "lease"), plural(2, "lease")],
      ["0 leases", "1 lease", "2 leases"],
    );
  });

  it("leave out the loader's sentence about each library", () => {
    const message =
      "tried a.so (Failed: x: No such file or directory), b.so (Failed: No such file or directory)";
    assert.equal(withoutLoaderWords(message), "tried a.so, b.so");
    assert.equal(
      withoutLoaderWords("tried a.so (wrong ELF class)"),
      "tried a.so (wrong ELF class)",
    );
  });
});

describe("valueTexts", () => {
  it("prints integers in full and floats with 7 digits", () => {
    assert.deepEqual(valueTexts("float32", bytesOf(Float32Array.of(0.1, 1e10, Number.NaN, -0.5))), [
      "0.1",
      "10000000000",
      "NaN",
      "-0.5",
    ]);
    assert.deepEqual(valueTexts("uint64", bytesOf(BigUint64Array.of(2n ** 64n - 1n))), [
      "18446744073709551615",
    ]);
    assert.deepEqual(valueTexts("bool", Uint8Array.of(0, 1)), ["false", "true"]);
    assert.deepEqual(valueTexts("bfloat16", bytesOf(Uint16Array.of(0x3f80, 0xc000))), ["1", "-2"]);
    assert.deepEqual(valueTexts("complex64", bytesOf(Float32Array.of(1, -2, 0.5, 3))), [
      "1-2i",
      "0.5+3i",
    ]);
    assert.equal(numberText(1 / 3), "0.3333333");
  });
});

describe("arguments", () => {
  const refused = { name: "InvalidArgumentError" } as const;

  it("takes counts, shapes and dtypes", () => {
    assert.equal(parseCount("0"), 0);
    assert.equal(parsePositive("12", 12), 12);
    assert.deepEqual(parseShape("1080, 1920,3"), [1080, 1920, 3]);
    assert.deepEqual(parseShape(""), []);
    assert.equal(parseDTypeName("bfloat16"), "bfloat16");
  });

  for (const text of ["", "-1", "1.5", "1e3", "0x10", " 1", "99999999999999999999"]) {
    it(`refuses ${JSON.stringify(text)} as a count`, () => {
      assert.throws(() => parseCount(text), refused);
    });
  }

  it("refuses malformed shapes and unknown dtypes", () => {
    for (const text of ["1,", "a", "1,-2"]) assert.throws(() => parseShape(text), refused);
    for (const text of ["float", "toString", ""])
      assert.throws(() => parseDTypeName(text), refused);
    assert.throws(() => parsePositive("0", 12), refused);
    assert.throws(() => parsePositive("13", 12), refused);
  });
});
