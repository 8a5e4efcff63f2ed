import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { type DType, dtypeNames } from "../../../../src/array/dtype.js";
import { readValues } from "../../../../src/cli/inspect/array-values.js";
import { valueRows } from "../../../../src/cli/inspect/inspection-rows.js";
import { Terminal } from "../../../../src/cli/terminal/terminal.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { interceptDriver } from "../../../support/intercept-driver.js";
import { checkLeaks } from "../../../support/leak-check.js";

const terminal = new Terminal(new PassThrough(), new PassThrough());
const context = { terminal, signal: new AbortController().signal };

/** The values found with this threshold, and how often the device was asked. */
async function valuesOf(
  dtype: DType,
  shape: number[],
  transposed: boolean,
  onGpuBytesMin?: number,
) {
  let asked = 0;
  const before = (call: string) => {
    if (call === "enqueueReduction") asked += 1;
  };
  using device = Device.open("cuda:0", () => interceptDriver(createFakeGpu(), { before }));
  using array = DeviceArray.allocate(device, { dtype, shape });
  const bytes = Uint8Array.from({ length: array.byteLength }, (_, i) =>
    dtype === "bool" ? i % 2 : (i * 37) % 251,
  );
  await array.buffer.write(0, bytes);
  const read = transposed ? array.transpose() : array;
  const values = await readValues(read, context, { onGpuBytesMin });
  return { values, asked };
}

describe("the values that inspect shows", () => {
  checkLeaks();

  it("are the same whether the GPU or the CPU computes the statistics", async () => {
    for (const dtype of dtypeNames) {
      const read = await valuesOf(dtype, [50, 20], false);
      const found = await valuesOf(dtype, [50, 20], false, 0);
      assert.equal(read.asked, 0);
      assert.equal(found.asked, /bool|float8|complex/.test(dtype) ? 0 : 1, dtype);
      assert.deepEqual(found.values.firstValues, read.values.firstValues);
      const { mean, ...rest } = found.values.statistics;
      const { mean: meanRead, ...restRead } = read.values.statistics;
      assert.deepEqual(rest, restRead, dtype);
      assert.ok(mean === meanRead || Math.abs((mean ?? 0) / (meanRead ?? 0) - 1) < 1e-9, dtype);
    }
  });

  it("are read by the CPU if the elements have gaps", async () => {
    const { values, asked } = await valuesOf("int16", [50, 20], true, 0);
    assert.equal(asked, 0);
    assert.equal(values.statistics.elementCount, 1000);
  });

  it("are of a sample if the CPU would read more than the limit", async () => {
    using device = Device.open("host");
    using array = DeviceArray.allocate(device, { dtype: "uint8", shape: [2 ** 20] });
    await array.buffer.fill(0, { elementBytes: 1, value: 7 }, array.byteLength);
    const { statistics, firstValues, sampledOf } = await readValues(array, context, {
      readBytesMax: array.byteLength - 1,
    });
    assert.equal(sampledOf, 2 ** 20);
    assert.equal(statistics.elementCount, 2 ** 18);
    assert.deepEqual([statistics.min, statistics.max], [7, 7]);
    assert.equal(firstValues.join(), "7,7,7,7,7,7,7,7");
    const whole = await readValues(array, context, { readBytesMax: array.byteLength });
    assert.equal(whole.statistics.elementCount, 2 ** 20);
    assert.equal(whole.sampledOf, undefined);
  });

  it("say how much was read, and how to read all", async () => {
    using device = Device.open("host");
    using array = DeviceArray.allocate(device, { dtype: "uint8", shape: [2 ** 20] });
    const sampled = valueRows(await readValues(array, context, { readBytesMax: 0 }));
    const words = "262144 of 1048576 elements, evenly spread; --all-values reads all";
    assert.deepEqual(sampled.at(-1), ["read", words]);
    const whole = valueRows(await readValues(array, context));
    assert.ok(whole.every(([title]) => title !== "read"));
  });
});
