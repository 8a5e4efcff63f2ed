import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { type AddressRange, AddressTable } from "../../../../src/driver/common/address-table.js";
import { CheckedWord, word64 } from "../../../../src/driver/cuda/checked-word.js";
import type { DevicePointer } from "../../../../src/driver/gpu-driver.js";
import type { Access } from "../../../../src/os/mapping.js";

const START = 0x1000n as DevicePointer;
const ELSEWHERE = 0x8000n as DevicePointer;

/** A table that counts its lookups. */
class CountedTable extends AddressTable<AddressRange> {
  asked = 0;

  override holding(address: bigint): AddressRange | undefined {
    this.asked += 1;
    return super.holding(address);
  }
}

function registered(access: Access): CountedTable {
  const table = new CountedTable("Ranges");
  table.add({ start: START, byteLength: 64, access });
  return table;
}

const nowhere = () => undefined;
const readOnly = (error: unknown) => hasCode(error, "READ_ONLY");

describe("CheckedWord", () => {
  it("looks each word up once", () => {
    const table = registered("read-write");
    const word = new CheckedWord("read-write", table);
    for (let i = 0; i < 3; i += 1) assert.equal(BigInt(word.check(START, nowhere)), START);
    assert.equal(table.asked, 1);
    const other = (START + 8n) as DevicePointer;
    for (let i = 0; i < 3; i += 1) assert.equal(BigInt(word.check(other, nowhere)), other);
    assert.equal(table.asked, 2);
    table.add({ start: 0x2000n, byteLength: 64, access: "read" });
    word.check(other, nowhere);
    assert.equal(table.asked, 2);
  });

  it("looks a word up again after an unregistration, and refuses it if it is gone", () => {
    const table = registered("read-write");
    const word = new CheckedWord("read-write", table);
    word.check(START, nowhere);
    table.remove(START);
    table.add({ start: START, byteLength: 64, access: "read" });
    assert.throws(() => word.check(START, nowhere), readOnly);
    assert.throws(() => word.check(START, nowhere), readOnly);
  });

  it("refuses misaligned words each time", () => {
    const word = new CheckedWord("read-write", registered("read"));
    for (let i = 0; i < 2; i += 1) {
      assert.throws(() => word.check(START, nowhere), readOnly);
      assert.throws(() => word.check((START + 4n) as DevicePointer, nowhere), RangeError);
    }
    const table = new AddressTable<AddressRange>("Ranges");
    table.add({ start: START, byteLength: 12, access: "read" });
    const end = (START + 8n) as DevicePointer;
    assert.throws(() => new CheckedWord("read", table).check(end, nowhere), RangeError);
  });

  it("looks device memory up each time, and leaves unknown addresses to the driver", () => {
    const word = new CheckedWord("read-write", registered("read-write"));
    let access: Access = "read-write";
    const elsewhere = () => ({ start: ELSEWHERE, byteLength: 64, access });
    assert.equal(word.check(ELSEWHERE, elsewhere), ELSEWHERE);
    access = "read";
    assert.throws(() => word.check(ELSEWHERE, elsewhere), readOnly);
    assert.equal(word.check(ELSEWHERE, nowhere), ELSEWHERE);
  });
});

describe("word64", () => {
  it("keeps the 64 bits, as a number only if that is exact", () => {
    const exact = Number.MAX_SAFE_INTEGER;
    for (const value of [0, 7, exact]) assert.equal(word64(value), value);
    for (const value of [0n, 7n, BigInt(exact)]) assert.equal(word64(value), Number(value));
    for (const value of [2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n])
      assert.equal(word64(value), value);
    for (const value of [-1n, -(2n ** 63n), 2n ** 63n, 2n ** 64n - 2n]) {
      assert.equal(word64(value), BigInt.asUintN(64, value));
    }
  });
});
