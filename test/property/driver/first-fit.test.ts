import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { FirstFit } from "../../../src/driver/host/first-fit.js";

const UNIT = 16;
const UNITS = 24;

/** The model: one flag per unit, and a plain search. */
class Model {
  readonly #used = new Array<boolean>(UNITS).fill(false);

  allocate(byteLength: number): number | undefined {
    const wanted = Math.ceil(byteLength / UNIT);
    for (let start = 0; start + wanted <= UNITS; start += 1) {
      if (this.#used.slice(start, start + wanted).includes(true)) continue;
      this.#used.fill(true, start, start + wanted);
      return start * UNIT;
    }
    return undefined;
  }

  free(offset: number, byteLength: number): void {
    this.#used.fill(false, offset / UNIT, offset / UNIT + Math.ceil(byteLength / UNIT));
  }

  get usedBytes(): number {
    return this.#used.filter(Boolean).length * UNIT;
  }

  get usedEnd(): number {
    return (this.#used.lastIndexOf(true) + 1) * UNIT;
  }
}

type Step =
  | { readonly kind: "allocate"; readonly byteLength: number }
  | { readonly kind: "free"; readonly which: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("allocate" as const),
    byteLength: fc.integer({ min: 1, max: 8 * UNIT }),
  }),
  fc.record({ kind: fc.constant("free" as const), which: fc.nat() }),
);

describe("FirstFit", () => {
  it("allocates, refuses and counts like a search over every unit", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const fit = new FirstFit(UNITS * UNIT, UNIT);
        const model = new Model();
        const live: { offset: number; byteLength: number }[] = [];
        for (const it of steps) {
          if (it.kind === "allocate") {
            const offset = fit.allocate(it.byteLength);
            assert.equal(offset, model.allocate(it.byteLength));
            if (offset !== undefined) live.push({ offset, byteLength: it.byteLength });
          } else if (live.length > 0) {
            const [freed] = live.splice(it.which % live.length, 1);
            fit.free(freed?.offset ?? -1);
            model.free(freed?.offset ?? -1, freed?.byteLength ?? 0);
          }
          assert.equal(fit.usedBytes, model.usedBytes);
          assert.equal(fit.usedEnd, model.usedEnd);
          assert.equal(fit.count, live.length);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("refuses to free unallocated ranges, and refuses impossible sizes", () => {
    const fit = new FirstFit(64, 16);
    const offset = fit.allocate(20);
    assert.equal(offset, 0);
    assert.throws(() => fit.free(16), RangeError);
    fit.free(0);
    assert.throws(() => fit.free(0), RangeError);
    for (const wrong of [0, -1, 0.5, Number.NaN])
      assert.throws(() => fit.allocate(wrong), RangeError);
    assert.throws(() => new FirstFit(65, 16), RangeError);
  });

  it("is one free range again after everything is freed in any order", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 }), (order) => {
        const fit = new FirstFit(6 * UNIT, UNIT);
        for (let i = 0; i < 6; i += 1) fit.allocate(UNIT);
        for (const i of order) fit.free(i * UNIT);
        assert.equal(fit.allocate(6 * UNIT), 0);
      }),
    );
  });
});
