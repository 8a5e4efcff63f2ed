import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fillArray, firstDifference, verifyArray } from "../../../../src/cli/demo/array-content.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";

async function withArray(
  shape: number[],
  work: (array: DeviceArray<"float32">) => Promise<void>,
): Promise<void> {
  using device = Device.open("host");
  using array = DeviceArray.allocate(device, { dtype: "float32", shape });
  await array.write(Float32Array.from({ length: array.elementCount }, (_, i) => i));
  await work(array);
}

describe("verifyArray", () => {
  it("passes for the written values", async () => {
    await withArray([1000], async (array) => {
      await fillArray(array, (i) => -i);
      await verifyArray(array, (i) => (i === 0 ? -0 : -i));
    });
  });

  for (const at of [0, 500, 999]) {
    it(`finds the wrong element ${at}`, async () => {
      await withArray([1000], async (array) => {
        await array.slice({ start: at, stop: at + 1 }).write([7777]);
        await assert.rejects(
          verifyArray(array, (i) => i),
          {
            code: "VERIFICATION_FAILED",
            message: `The array does not hold what was written: element ${at} is 7777, expected ${at}`,
          },
        );
      });
    });
  }

  it("distinguishes 0 from -0, whose bytes differ", () => {
    assert.equal(
      firstDifference(Float32Array.of(1, 0), 0, (i) => (i === 0 ? 1 : -0)),
      1,
    );
    assert.equal(
      firstDifference(Float32Array.of(1, -0), 0, (i) => (i === 0 ? 1 : -0)),
      undefined,
    );
  });
});
