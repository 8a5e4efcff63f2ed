import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { type DType, dtypeNames } from "../../../../src/array/dtype.js";
import { readValues } from "../../../../src/cli/inspect/array-values.js";
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
  const values = await readValues(transposed ? array.transpose() : array, context, onGpuBytesMin);
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
});
