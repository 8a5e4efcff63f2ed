import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  type AddressRange,
  AddressTable,
  bytesInto,
} from "../../../../src/driver/common/address-table.js";

function range(start: number, byteLength: number): AddressRange {
  return { start: BigInt(start), byteLength, access: "read" };
}

describe("AddressTable", () => {
  it("add() refuses a range that overlaps another, on either side and within", () => {
    const table = new AddressTable<AddressRange>("Ranges");
    table.add(range(100, 10));
    for (const [start, byteLength] of [
      [100, 10],
      [95, 6],
      [109, 1],
      [103, 2],
      [90, 100],
    ] as const) {
      assert.throws(
        () => table.add(range(start, byteLength)),
        /^RangeError: Ranges: 0x[0-9a-f]+ \(\d+ bytes\) overlaps 0x64/,
      );
    }
    table.add(range(110, 1));
    table.add(range(99, 1));
    assert.equal(table.size, 3);
  });

  it("counts removals only", () => {
    const table = new AddressTable<AddressRange>("Ranges");
    table.add(range(10, 5));
    table.add(range(20, 5));
    table.remove(11n);
    assert.equal(table.removals, 0);
    table.remove(10n);
    table.add(range(10, 5));
    assert.equal(table.removals, 1);
  });

  it("finds and removes ranges as a plain list would", () => {
    const step = fc.record({
      act: fc.constantFrom("add", "remove", "at", "holding"),
      start: fc.nat(60),
      byteLength: fc.integer({ min: 1, max: 8 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const table = new AddressTable<AddressRange>("Ranges");
        let model: AddressRange[] = [];
        for (const { act, start, byteLength } of steps) {
          const address = BigInt(start);
          const exact = model.find((it) => it.start === address);
          if (act === "add") {
            const free = model.every((it) => {
              return (
                it.start + BigInt(it.byteLength) <= address ||
                address + BigInt(byteLength) <= it.start
              );
            });
            if (free) model.push(range(start, byteLength));
            if (free) table.add(range(start, byteLength));
            else assert.throws(() => table.add(range(start, byteLength)), RangeError);
          } else if (act === "remove") {
            assert.deepEqual(table.remove(address), exact);
            model = model.filter((it) => it !== exact);
          } else if (act === "at") {
            assert.deepEqual(table.at(address), exact);
          } else {
            const holding = model.find(
              (it) => it.start <= address && address < it.start + BigInt(it.byteLength),
            );
            assert.deepEqual(table.holding(address), holding);
          }
          assert.equal(table.size, model.length);
        }
      }),
    );
  });
});

describe("bytesInto", () => {
  it("gives the exact difference, as far as a number is exact", () => {
    const start = fc.bigInt({ min: 0n, max: 2n ** 63n });
    const distance = fc.oneof(
      fc.bigInt({ min: 0n, max: 2n ** 40n }),
      fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    );
    fc.assert(
      fc.property(start, distance, (start, distance) => {
        assert.equal(
          bytesInto({ start, byteLength: 1, access: "read" }, start + distance),
          Number(distance),
        );
      }),
    );
  });
});
