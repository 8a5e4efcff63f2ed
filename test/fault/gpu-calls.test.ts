/** Each call of the driver fails in turn: the failure is thrown, and when everything is closed nothing is left. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../src/base/errors.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { Device } from "../../src/gpu/device.js";
import { DeviceArray } from "../../src/gpu/device-array.js";
import { DeviceBuffer } from "../../src/gpu/device-buffer.js";
import { createFailingDriver } from "../../src/testing/failing-driver.js";
import { createCountingDriver } from "../../src/testing/live-counts.js";
import { createFakeGpu } from "../support/fake-gpu.js";
import { checkLeaks } from "../support/leak-check.js";

const CALLS_MAX = 2000;

/** Everything that the layer does, with everything closed at its end. */
async function useEverything(driver: GpuDriver): Promise<void> {
  using device = Device.open(driver.kind === "host" ? "host" : "cuda:0", () => driver);
  device.memoryInfo();
  using stream = device.createStream();
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [3, 1024, 1024] });
  const values = new Float32Array(array.elementCount).fill(1);
  await array.write(values);
  using fd = array.buffer.exportFd();
  const { byteLength, allocationByteLength } = array.buffer;
  const options = { label: "imported", byteLength, allocationByteLength, access: "read-write" } as const;
  using imported = DeviceBuffer.import(device, fd, options);
  using twin = imported.twin();
  await twin.read(0, new Uint8Array(100));
  const part = array.slice(0, { step: 400 }, { stop: 10 });
  await part.write(await part.read());
  await array.clear();
  await array.read();
  // Few enough elements for the host to be done at once: the number of calls is then the same each time.
  const row = array.slice(0, 0);
  await row.iota(0, 1, { stream });
  await row.statistics({ stream });
  await row.affine(2, 1);
  await row.compare(row);
  await stream.synchronize();
}

describe("the n-th call of a driver that fails", () => {
  checkLeaks();

  for (const [kind, create] of [
    ["host", createHostDriver],
    ["cuda", createFakeGpu],
  ] as const) {
    it(`is thrown by what was asked for, and leaves nothing on a device of kind ${kind}`, async () => {
      const failed = new Set<string>();
      for (let failAt = 1; failAt < CALLS_MAX; failAt += 1) {
        const counting = createCountingDriver(create());
        const failing = createFailingDriver(counting.driver, { failAt });
        const before = counting.counts();
        let thrown: unknown;
        try {
          await useEverything(failing.driver);
        } catch (error) {
          thrown = error;
        }
        assert.deepEqual(counting.counts(), before, `call ${failAt}, ${failing.failed}`);
        if (failing.failed === undefined) {
          assert.equal(thrown, undefined);
          assert.ok(failAt > 20, "there were calls to fail");
          assert.ok(failed.has("mapMemory") && failed.has("unmapMemory") && failed.has("importMemory"));
          return;
        }
        failed.add(failing.failed);
        assert.ok(isMadeToFail(thrown), `call ${failAt}, ${failing.failed}: found ${String(thrown)}`);
      }
      assert.fail(`more than ${CALLS_MAX} calls`);
    });
  }
});

/** WHY inside others: what fails while something is given back is attached to what failed before. */
function isMadeToFail(error: unknown): boolean {
  if (hasCode(error, "CUDA_ERROR")) return /was made to fail/.test(error.message);
  if (error instanceof AggregateError) return error.errors.some(isMadeToFail);
  const suppressed = error as { readonly error?: unknown; readonly suppressed?: unknown } | undefined;
  return suppressed?.error !== undefined && (isMadeToFail(suppressed.error) || isMadeToFail(suppressed.suppressed));
}
