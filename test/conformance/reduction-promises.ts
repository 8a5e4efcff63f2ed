/** Reductions: exact counts, extremes and sums of every element, at any address. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type ArithmeticDType, arithmeticDTypes } from "../../src/array/arithmetic.js";
import { dtypes } from "../../src/array/dtype.js";
import type { Statistics } from "../../src/array/statistics.js";
import { hasCode } from "../../src/base/errors.js";
import type { Comparison, Reduction } from "../../src/driver/operation-calls.js";
import { type ConformanceRig, noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import {
  bytesOf,
  checksumOf,
  nearTo,
  notClose,
  someElements,
  statisticsOf,
} from "./element-models.js";
import { LARGE } from "./operation-promises.js";

const ELEMENT_BYTES = [1, 2, 4, 8, 16] as const;

export function reductionPromises({ rig }: Subject, large = LARGE): void {
  for (const elementBytes of ELEMENT_BYTES) {
    it(`counts different elements of ${elementBytes} bytes and finds the first, at any address`, async () => {
      for (const count of [0, 1, 2, 257, 1000, large]) {
        const bytes = noise(count * elementBytes, 5);
        const places = [[], [0], [count - 1], [count >> 1, count - 1], [1, 2, 3, 200, 256]];
        for (const indices of places.map((all) =>
          [...new Set(all)].filter((it) => it >= 0 && it < count),
        )) {
          const other = Uint8Array.from(bytes);
          for (const index of indices)
            flipBit(other, index * elementBytes + (index % elementBytes), index % 8);
          for (const shift of count === large
            ? [0]
            : [0, 1, elementBytes / 2, 4].filter(Number.isInteger)) {
            const expected = {
              differences: indices.length,
              first: indices.sort((a, b) => a - b)[0],
            };
            const found = await compare(rig(), { bytes, other, elementBytes, shift });
            assert.deepEqual(found, expected, `${count} elements, shifted by ${shift}, ${indices}`);
          }
        }
      }
    });
  }

  it("counts every element if all differ", async () => {
    const bytes = noise(4 * large, 6);
    const found = await compare(rig(), {
      bytes,
      other: bytes.map((it) => ~it),
      elementBytes: 4,
      shift: 0,
    });
    assert.deepEqual(found, { differences: large, first: 0 });
    const both = await compare(rig(), {
      bytes,
      other: bytes.map((it) => ~it),
      elementBytes: 1,
      shift: 3,
    });
    assert.deepEqual(both, { differences: 4 * large, first: 0 });
  });

  it("gives the documented checksum of any number of bytes at any address", async () => {
    for (const byteLength of [0, 1, 2, 3, 4, 5, 7, 8, 1000, 1023, 4097, 4 * large + 1]) {
      const bytes = noise(byteLength, 7);
      for (const shift of [0, 1, 2, 3]) {
        const { pointer } = rig().scratch(byteLength + 64, 0);
        // The bytes around the range do not count.
        await rig().put(pointer, noise(byteLength + 64, 8));
        await rig().put(pointer + BigInt(shift), bytes);
        const from = pointer + BigInt(shift);
        const found = await rig().reduced({ kind: "checksum", from, byteLength });
        assert.equal(found, checksumOf(bytes), `${byteLength} bytes, shifted by ${shift}`);
      }
    }
  });

  it("gives another checksum for bytes in another order", async () => {
    const { pointer } = rig().scratch(64, 0);
    const checksums = new Set<unknown>();
    for (const order of [
      [1, 2, 3, 4, 5, 6, 7, 8],
      [5, 6, 7, 8, 1, 2, 3, 4],
      [1, 2, 3, 4, 5, 6, 8, 7],
      [0, 0, 0, 0, 0, 0, 0, 0],
    ]) {
      await rig().put(pointer, Uint8Array.from(order));
      checksums.add(await rig().reduced({ kind: "checksum", from: pointer, byteLength: 8 }));
    }
    assert.equal(checksums.size, 4);
  });

  for (const dtype of arithmeticDTypes) {
    const { byteSize, kind } = dtypes[dtype];
    it(`finds the statistics of ${dtype}`, async () => {
      for (const count of [0, 1, 2, 15, 16, 257, 1000, large]) {
        await assertStatistics(rig(), dtype, someElements(dtype, count, count));
        await assertStatistics(rig(), dtype, new Uint8Array(count * byteSize));
        await assertStatistics(rig(), dtype, noise(count * byteSize, count + 1));
      }
    });

    it(`counts elements of ${dtype} that are not close, as numpy.isclose decides it`, async () => {
      for (const count of [0, 1, 15, 257, 1000, large]) {
        const a = someElements(dtype, count, count);
        const b = nearTo(dtype, a);
        for (const [rtol, atol] of [
          [0, 0],
          [0, 1],
          [1e-3, 0],
          [1e-5, 1e-8],
          [1, 1e300],
        ] as const) {
          const found = await close(rig(), { dtype, a, b, rtol, atol });
          const wanted = notClose(dtype, a, b, rtol, atol);
          assert.deepEqual(found, wanted, `${count} elements, rtol ${rtol}, atol ${atol}`);
        }
      }
    });

    it(`refuses misaligned addresses of ${dtype}`, () => {
      const { pointer, byteLength } = rig().buffer(4096);
      const refused = (from: bigint, count: number) =>
        assert.throws(() => rig().enqueued({ kind: "statistics", dtype, from, count }), RangeError);
      refused(pointer, byteLength / byteSize + 1);
      refused(pointer, -1);
      if (byteSize > 1) refused(pointer + 1n, 1);
      const b = pointer;
      const close = { kind: "close", dtype, b, count: 1, rtol: 0, atol: 0 } as const;
      const unclear = [{ rtol: -1 }, { atol: Number.NaN }, { rtol: Number.POSITIVE_INFINITY }];
      for (const wrong of [...unclear, ...(byteSize > 1 ? [{ a: pointer + 1n }] : [])]) {
        const reduction = { ...close, a: pointer, ...wrong };
        assert.throws(() => rig().enqueued(reduction), RangeError);
      }
    });

    if (kind !== "float") continue;
    it(`gives no extremes and no mean of ${dtype} if there is no number`, async () => {
      const nans = bytesOf(dtype, new Array<number>(300).fill(Number.NaN));
      const nan = await statistics(rig(), dtype, nans);
      assert.deepEqual(
        [nan.nanCount, nan.min, nan.max, nan.mean],
        [300, undefined, undefined, undefined],
      );
      const infinite = await statistics(
        rig(),
        dtype,
        bytesOf(dtype, [Number.NEGATIVE_INFINITY, Number.NaN]),
      );
      const { min, max, mean, infiniteCount } = infinite;
      assert.deepEqual([min, max, mean, infiniteCount], [-Infinity, -Infinity, undefined, 1]);
    });
  }

  it("gives a mean if the sum of the values overflows", async () => {
    const values = Array.from({ length: 1000 }, (_, i) => (i % 3 === 0 ? -1.5e308 : 1.7e308));
    const { mean = Number.NaN } = await statistics(rig(), "float64", bytesOf("float64", values));
    const wanted = values.reduce((sum, it) => sum + it / 1000, 0);
    assert.ok(Math.abs(mean - wanted) < 1e-9 * 1.7e308, `${mean}, wanted ${wanted}`);
  });

  it("refuses addresses outside of memory and unknown element sizes", () => {
    const { pointer, byteLength } = rig().buffer(4096);
    const wrong: Reduction[] = [
      { kind: "checksum", from: pointer, byteLength: byteLength + 1 },
      { kind: "checksum", from: pointer, byteLength: -1 },
      { kind: "compare", a: pointer, b: pointer + 1n, elementBytes: 1, count: byteLength },
      { kind: "compare", a: pointer + 4n, b: pointer, elementBytes: 4, count: byteLength / 4 },
      { kind: "compare", a: pointer, b: pointer, elementBytes: 3 as 4, count: 1 },
      { kind: "compare", a: pointer, b: pointer, elementBytes: 1, count: Number.NaN },
    ];
    for (const reduction of wrong) {
      assert.throws(() => rig().enqueued(reduction), RangeError, Object.values(reduction).join());
    }
  });

  it("gives a result once", async () => {
    const { pointer } = rig().scratch(64, 0);
    await rig().put(pointer, noise(64, 1));
    const stream = rig().stream();
    const reduction = { kind: "checksum", from: pointer, byteLength: 64 } as const;
    const one = rig().driver.enqueueReduction<"checksum">(stream, reduction);
    const other = rig().driver.enqueueReduction<"checksum">(stream, reduction);
    await rig().done(stream);
    assert.equal(one.result(), checksumOf(noise(64, 1)));
    one.discard();
    other.discard();
    other.discard();
    for (const ended of [one, other]) {
      assert.throws(
        () => ended.result(),
        (error) => hasCode(error, "CLOSED"),
      );
    }
  });

  it("runs many reductions at a time, repeatedly, in the memory of the first ones", async () => {
    const { driver } = rig();
    const { pointer } = rig().scratch(4096, 0);
    const bytes = noise(4096, 2);
    await rig().put(pointer, bytes);
    const streams = [rig().stream(), rig().stream()];
    let freeBytes = 0;
    for (let round = 0; round < 20; round += 1) {
      const pending = Array.from({ length: 40 }, (_, i) => {
        const stream = streams[i % 2] as (typeof streams)[0];
        const reduction = {
          kind: "checksum",
          from: pointer + BigInt(4 * i),
          byteLength: 1000,
        } as const;
        return driver.enqueueReduction<"checksum">(stream, reduction);
      });
      for (const stream of streams) await rig().done(stream);
      pending.forEach((it, i) => {
        assert.equal(it.result(), checksumOf(bytes.subarray(4 * i, 4 * i + 1000)));
      });
      if (round === 0) freeBytes = driver.memoryInfo(0).freeBytes;
    }
    // Otherwise 800 reductions would have taken 50 MiB. On the host other processes use memory too.
    if (rig().kind === "cuda")
      assert.ok(freeBytes - driver.memoryInfo(0).freeBytes < 32 * 1024 * 1024);
  });
}

function flipBit(bytes: Uint8Array, index: number, bit: number): void {
  bytes[index] = (bytes[index] as number) ^ (1 << bit);
}

interface Compared {
  readonly bytes: Uint8Array;
  readonly other: Uint8Array;
  readonly elementBytes: 1 | 2 | 4 | 8 | 16;
  /** The offset of the second in its memory; the first is at the start. */
  readonly shift: number;
}

async function compare(
  rig: ConformanceRig,
  { bytes, other, elementBytes, shift }: Compared,
): Promise<Comparison> {
  const a = rig.scratch(bytes.byteLength + 64, 0).pointer;
  const b = rig.scratch(other.byteLength + 64, 1).pointer + BigInt(shift);
  await rig.put(a, bytes);
  await rig.put(b, other);
  return rig.reduced({
    kind: "compare",
    a,
    b,
    elementBytes,
    count: bytes.byteLength / elementBytes,
  });
}

interface Close {
  readonly dtype: ArithmeticDType;
  readonly a: Uint8Array;
  readonly b: Uint8Array;
  readonly rtol: number;
  readonly atol: number;
}

async function close(rig: ConformanceRig, { a, b, ...rest }: Close): Promise<Comparison> {
  const { byteSize } = dtypes[rest.dtype];
  const ofA = rig.scratch(a.byteLength + 64, 0).pointer;
  const ofB = rig.scratch(b.byteLength + 64, 1).pointer + BigInt(byteSize);
  await rig.put(ofA, a);
  await rig.put(ofB, b);
  const count = a.byteLength / byteSize;
  return rig.reduced({ kind: "close", ...rest, a: ofA, b: ofB, count });
}

async function statistics(
  rig: ConformanceRig,
  dtype: ArithmeticDType,
  bytes: Uint8Array,
): Promise<Statistics> {
  const { byteSize } = dtypes[dtype];
  const from = rig.scratch(bytes.byteLength + 64, 0).pointer + BigInt(3 * byteSize);
  await rig.put(from, bytes);
  return rig.reduced({ kind: "statistics", dtype, from, count: bytes.byteLength / byteSize });
}

async function assertStatistics(
  rig: ConformanceRig,
  dtype: ArithmeticDType,
  bytes: Uint8Array,
): Promise<void> {
  const { mean, ...found } = await statistics(rig, dtype, bytes);
  const { mean: wantedMean, size, ...wanted } = statisticsOf(dtype, bytes);
  const elementCount = bytes.byteLength / dtypes[dtype].byteSize;
  assert.deepEqual(found, { ...wanted, elementCount, of: "value" });
  if (wantedMean === undefined) assert.equal(mean, undefined);
  else
    assert.ok(
      Math.abs((mean as number) - wantedMean) <= 1e-9 * size,
      `${mean}, wanted ${wantedMean}`,
    );
}
