/** Operations on elements: the same bits on every device, for every dtype, count and address. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type ArithmeticDType, arithmeticDTypes, type Scalar } from "../../src/array/arithmetic.js";
import { type DType, dtypeNames, dtypes } from "../../src/array/dtype.js";
import { hasCode } from "../../src/base/errors.js";
import type { ElementOperation } from "../../src/driver/operation-calls.js";
import { type ConformanceRig, noise, turns } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import { affineBytes, bytesOf, iotaBytes, scalarsOf, someElements } from "./element-models.js";

/** A large odd count, a multiple of no block or step. */
export const LARGE = 2 ** 20 + 3;
const COUNTS = [0, 1, 2, 31, 255, 257, 1000];

export function operationPromises({ rig }: Subject, large = LARGE): void {
  for (const dtype of arithmeticDTypes) {
    const { byteSize } = dtypes[dtype];
    const scalars = scalarsOf(dtype);

    it(`fills any number of ${dtype} with any value and touches nothing else`, async () => {
      for (const count of [...COUNTS, large]) {
        for (const value of count === large ? scalars.fills.slice(-1) : scalars.fills) {
          const operation = { kind: "fill", dtype, count, value } as const;
          const expected = bytesOf(dtype, new Array<Scalar>(count).fill(value));
          await assertWrites(rig(), operation, expected);
        }
      }
    });

    it(`counts up in ${dtype} from any start by any step`, async () => {
      for (const count of [...COUNTS, large]) {
        for (const [start, step] of count === large ? scalars.iotas.slice(1, 3) : scalars.iotas) {
          const operation = { kind: "iota", dtype, count, start, step } as const;
          await assertWrites(rig(), operation, iotaBytes(dtype, count, start, step));
        }
      }
    });

    it(`computes a * x + b in ${dtype}, in place and from elsewhere`, async () => {
      for (const count of [...COUNTS, large]) {
        const from = someElements(dtype, count, count);
        for (const [a, b] of count === large ? scalars.affines.slice(2, 3) : scalars.affines) {
          const expected = affineBytes(dtype, from, a, b);
          await assertAffine(rig(), { dtype, count, a, b }, from, expected);
        }
      }
    });

    it(`refuses impossible addresses, counts and values of ${dtype}`, async () => {
      const { driver } = rig();
      const { pointer, byteLength } = rig().buffer(4096);
      const stream = rig().stream();
      const fits = byteLength / byteSize;
      const operation = (changed: object) => ({
        kind: "fill",
        dtype,
        to: pointer,
        count: 1,
        value: 0,
        ...changed,
      });
      const enqueue = (changed: object) =>
        driver.enqueueOperation(stream, operation(changed) as ElementOperation);
      enqueue({ count: fits });
      const wrong: object[] = [
        { count: fits + 1 },
        { count: -1 },
        { count: 0.5 },
        { count: Number.NaN },
        { count: Number.MAX_SAFE_INTEGER },
        { kind: "affine", a: 1, b: 0, from: pointer + BigInt(byteSize), count: fits },
      ];
      if (byteSize > 1)
        wrong.push({ to: pointer + 1n }, { kind: "affine", a: 1, b: 0, from: pointer + 1n });
      if (dtypes[dtype].kind === "uint")
        wrong.push({ value: -1 }, { value: 2 ** (8 * byteSize) }, { value: 0.5 });
      if (dtypes[dtype].kind === "int")
        wrong.push({ value: 2 ** (8 * byteSize - 1) }, { value: Number.NaN });
      for (const changed of wrong)
        assert.throws(() => enqueue(changed), RangeError, inspected(changed));
      const isLong = byteSize === 8 && dtype !== "float64";
      for (const value of ["1", null, undefined, ...(isLong ? [] : [1n])]) {
        assert.throws(() => enqueue({ value }), TypeError, String(value));
        assert.throws(
          () => enqueue({ kind: "iota", start: 0, step: value }),
          TypeError,
          String(value),
        );
        assert.throws(
          () => enqueue({ kind: "affine", from: pointer, a: value, b: 0 }),
          TypeError,
          String(value),
        );
      }
      await rig().done(stream);
    });
  }

  it("refuses dtypes without arithmetic with UNSUPPORTED_DTYPE", () => {
    const { driver } = rig();
    const { pointer } = rig().buffer(64);
    const stream = rig().stream();
    const without = dtypeNames.filter(
      (it: DType) => !(arithmeticDTypes as readonly DType[]).includes(it),
    );
    assert.equal(without.length, 5);
    for (const dtype of without) {
      const operation = {
        kind: "fill",
        dtype,
        to: pointer,
        count: 1,
        value: 0,
      } as unknown as ElementOperation;
      assert.throws(() => driver.enqueueOperation(stream, operation), isUnsupported);
      const reduction = { kind: "statistics", dtype, from: pointer, count: 1 } as never;
      assert.throws(() => driver.enqueueReduction(stream, reduction), isUnsupported);
    }
  });

  it("reads read-only memory, and refuses to write to it", async () => {
    const { driver } = rig();
    const { pointer, memory, byteLength } = rig().buffer(4096);
    const content = noise(byteLength, 9);
    await rig().write(pointer, content);
    const readOnly = rig().map(rig().imported(rig().exported(memory), byteLength), "read");
    const stream = rig().stream();
    const common = { dtype: "uint32", count: 4, a: 1, b: 1, value: 1, start: 0, step: 0 } as const;
    for (const kind of ["fill", "iota", "affine"] as const) {
      const operation = { ...common, kind, to: readOnly, from: pointer } as ElementOperation;
      assert.throws(
        () => driver.enqueueOperation(stream, operation),
        (error) => hasCode(error, "READ_ONLY"),
      );
    }
    driver.enqueueOperation(stream, {
      ...common,
      kind: "affine",
      to: pointer,
      from: readOnly,
      count: 1,
    });
    await rig().done(stream);
    const first = new Uint32Array(content.buffer, 0, 1);
    first[0] = (first[0] as number) + 1;
    assert.deepEqual(await rig().read(pointer, byteLength), content);
  });

  it("runs operations in the order they were enqueued, and none before a wait is over", async () => {
    const { driver } = rig();
    driver.prepareOperations(0);
    const count = 100_003;
    const [a, b] = [rig().buffer(4 * count), rig().buffer(4 * count)];
    await rig().write(a.pointer, new Uint8Array(4 * count));
    const words = rig().words();
    const stream = rig().stream();
    rig().wait(stream, words, 0, 1n);
    const common = { dtype: "int32", count } as const;
    driver.enqueueOperation(stream, { ...common, kind: "iota", to: a.pointer, start: 5, step: 1 });
    driver.copyOnDevice(stream, b.pointer, a.pointer, 4 * count);
    driver.enqueueOperation(stream, {
      ...common,
      kind: "affine",
      to: b.pointer,
      from: b.pointer,
      a: 2,
      b: 1,
    });
    const pending = driver.enqueueReduction<"statistics">(stream, {
      ...common,
      kind: "statistics",
      from: b.pointer,
    });
    driver.enqueueOperation(stream, { ...common, kind: "fill", to: b.pointer, value: 7 });
    await turns();
    assert.ok((await rig().read(a.pointer, 4 * count)).every((byte) => byte === 0));
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(stream);
    const { min, max } = pending.result();
    assert.deepEqual([min, max], [11, 11 + 2 * (count - 1)]);
    const filled = new Int32Array((await rig().read(b.pointer, 4 * count)).buffer);
    assert.ok(filled.every((value) => value === 7));
  });

  it("refuses a stream that was destroyed with CLOSED", () => {
    const { driver } = rig();
    const { pointer } = rig().buffer(64);
    const stream = driver.createStream(0);
    driver.destroyStream(stream);
    const isClosed = (error: unknown) => hasCode(error, "CLOSED");
    const operation = { kind: "fill", dtype: "int8", to: pointer, count: 1, value: 0 } as const;
    assert.throws(() => driver.enqueueOperation(stream, operation), isClosed);
    const reduction = { kind: "checksum", from: pointer, byteLength: 8 } as const;
    assert.throws(() => driver.enqueueReduction<"checksum">(stream, reduction), isClosed);
  });
}

const isUnsupported = (error: unknown) => hasCode(error, "UNSUPPORTED_DTYPE");

function inspected(changed: object): string {
  return Object.entries(changed).join("; ");
}

type WithoutTarget = ElementOperation extends infer One
  ? One extends unknown
    ? Omit<One, "to">
    : never
  : never;

/**
 * Runs the operation from the third element of a buffer of noise, and compares the whole buffer.
 */
async function assertWrites(
  rig: ConformanceRig,
  operation: WithoutTarget,
  expected: Uint8Array,
): Promise<void> {
  const { byteSize } = dtypes[operation.dtype];
  const start = 3 * byteSize;
  const { pointer } = rig.scratch(start + expected.byteLength + 64, 0);
  const whole = noise(start + expected.byteLength + 64, 4);
  await rig.put(pointer, whole);
  const stream = rig.sharedStream();
  rig.driver.enqueueOperation(stream, {
    ...operation,
    to: pointer + BigInt(start),
  } as ElementOperation);
  await rig.done(stream);
  whole.set(expected, start);
  assertBytes(
    await rig.get(pointer, whole.byteLength),
    whole,
    byteSize,
    JSON.stringify(operation, shown),
  );
}

async function assertAffine(
  rig: ConformanceRig,
  operation: { dtype: ArithmeticDType; count: number; a: Scalar; b: Scalar },
  from: Uint8Array,
  expected: Uint8Array,
): Promise<void> {
  const { dtype } = operation;
  const { byteSize } = dtypes[dtype];
  const at = BigInt(5 * byteSize);
  const source = rig.scratch(from.byteLength + 64 + 5 * byteSize, 1).pointer + at;
  await rig.put(source, from);
  await assertWrites(rig, { ...operation, kind: "affine", from: source }, expected);
  const stream = rig.sharedStream();
  rig.driver.enqueueOperation(stream, { ...operation, kind: "affine", to: source, from: source });
  await rig.done(stream);
  assertBytes(
    await rig.get(source, from.byteLength),
    expected,
    byteSize,
    `in place, ${JSON.stringify(operation, shown)}`,
  );
}

function shown(_: string, value: unknown): unknown {
  return typeof value === "number" || typeof value === "bigint" ? String(value) : value;
}

function assertBytes(
  found: Uint8Array,
  expected: Uint8Array,
  elementBytes: number,
  what: string,
): void {
  if (Buffer.compare(found, expected) === 0) return;
  const at = found.findIndex((byte, i) => byte !== expected[i]);
  const start = at - (at % elementBytes);
  const hex = (bytes: Uint8Array) =>
    Buffer.from(bytes.subarray(start, start + elementBytes).toReversed()).toString("hex");
  assert.fail(`${what}: at byte ${at} found 0x${hex(found)}, wanted 0x${hex(expected)}`);
}
