import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Libnvml } from "../../../src/ffi/libnvml.js";
import { GpuMemory } from "../../../src/watch/gpu-memory.js";

const MiB = 1024 ** 2;
const UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef";

/** One GPU of 1 GiB, and the calls that were made. */
function library(changes: Partial<Libnvml> = {}): Libnvml & { readonly calls: string[] } {
  const calls: string[] = [];
  const put = (text: string) => (_: bigint, bytes: Uint8Array) => {
    bytes.set(Buffer.from(`${text}\0`));
    return 0;
  };
  return {
    calls,
    nvmlInit_v2: () => {
      calls.push("init");
      return 0;
    },
    nvmlShutdown: () => {
      calls.push("shutdown");
      return 0;
    },
    nvmlErrorString: (result) => `error ${result}`,
    nvmlDeviceGetCount_v2: (count) => {
      count[0] = 1;
      return 0;
    },
    nvmlDeviceGetHandleByIndex_v2: (index, device) => {
      device[0] = BigInt(index + 5);
      return 0;
    },
    nvmlDeviceGetUUID: put(UUID),
    nvmlDeviceGetName: put("NVIDIA Test"),
    nvmlDeviceGetMemoryInfo: (device, bytes) => {
      assert.equal(device, 5n);
      bytes.set([1024, 700, 324].map((size) => BigInt(size * MiB)));
      return 0;
    },
    nvmlDeviceGetComputeRunningProcesses_v3: (_, count, entries) => {
      const view = new DataView(entries.buffer);
      view.setUint32(0, 4242, true);
      view.setBigUint64(8, BigInt(100 * MiB), true);
      view.setUint32(24, 4243, true);
      view.setBigUint64(32, 2n ** 64n - 1n, true);
      count[0] = 2;
      return 0;
    },
    ...changes,
  };
}

describe("GpuMemory", () => {
  it("has the memory of each GPU and the processes on it", () => {
    const gpus = new GpuMemory(() => library());
    assert.deepEqual(gpus.look(), [
      {
        uuid: UUID,
        model: "NVIDIA Test",
        totalBytes: 1024 * MiB,
        usedBytes: 324 * MiB,
        processes: [
          { pid: 4242, bytes: 100 * MiB },
          { pid: 4243, bytes: undefined },
        ],
      },
    ]);
    assert.equal(gpus.reason, undefined);
  });

  it("opens the library once, and closes it", () => {
    const nvml = library();
    const gpus = new GpuMemory(() => nvml);
    gpus.look();
    gpus.look();
    gpus.close();
    assert.deepEqual(nvml.calls, ["init", "shutdown"]);
    assert.deepEqual(gpus.look(), []);
  });

  it("says why nothing is known, and does not try again", () => {
    let tries = 0;
    const missing = new GpuMemory(() => {
      tries += 1;
      throw new Error("no such file");
    });
    assert.deepEqual([missing.look(), missing.look(), tries], [[], [], 1]);
    assert.match(missing.reason ?? "", /libnvidia-ml\.so\.1 cannot be used: no such file/);
    const failing = new GpuMemory(() => library({ nvmlInit_v2: () => 9 }));
    assert.deepEqual(failing.look(), []);
    assert.equal(failing.reason, "nvmlInit_v2 failed: error 9");
  });

  it("names no processes if the driver does not", () => {
    const nvml = library({ nvmlDeviceGetComputeRunningProcesses_v3: () => 3 });
    assert.deepEqual(new GpuMemory(() => nvml).look()[0]?.processes, []);
  });
});
