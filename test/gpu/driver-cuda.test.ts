/**
 * The CUDA driver on a real GPU: what goes beyond the promises of both drivers, and how it behaves
 * where NVIDIA's manual is silent.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, openSync } from "node:fs";
import { after, afterEach, before, beforeEach, describe, it, type TestContext } from "node:test";
import { uuidOf } from "../../src/base/device-reference.js";
import { CudaIpcError } from "../../src/base/errors.js";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { Mapping } from "../../src/os/mapping.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { ConformanceRig, noise, turns } from "../conformance/conformance-rig.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { createFailingDriver } from "../support/failing-driver.js";

const reason = whyNoGpu();

function cudaTests(): void {
  let driver: GpuDriver;
  let rig: ConformanceRig;
  before(() => {
    driver = createCudaDriver();
  });
  beforeEach(() => {
    rig = new ConformanceRig(driver);
  });
  afterEach(() => rig.end());
  after(() => driver.close());

  it("names devices as nvidia-smi does", (t) => {
    const listed = spawnSync("nvidia-smi", ["-L"], { encoding: "utf8" });
    if (listed.status !== 0) return t.skip("no nvidia-smi");
    if (listed.stdout.includes("MIG"))
      return t.skip("nvidia-smi names MIG instances in another way");
    assert.ok(
      listed.stdout.includes(uuidOf(rig.driver.describeDevice(0).reference)),
      listed.stdout,
    );
  });

  it("reports every attribute it reads", (t) => {
    const facts = rig.driver.describeDevice(0);
    t.diagnostic(JSON.stringify(facts));
    assert.equal(typeof facts.attributes.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "number");
    assert.match(facts.computeCapability ?? "", /^\d+\.\d+$/);
  });

  it("releases, enqueues and polls while a wait of another stream is pending", async () => {
    const words = rig.words();
    const [waiter, other] = [rig.stream(), rig.stream()];
    rig.wait(waiter, words, 0, 1n);
    const { pointer, byteLength } = rig.buffer(1);
    const memory = rig.driver.createMemory(0, byteLength);
    const mapped = rig.driver.mapMemory(memory, "read-write");
    rig.driver.exportMemory(memory).close();
    rig.driver.copyOnDevice(other, mapped, pointer, byteLength);
    await rig.done(other);
    rig.driver.unmapMemory(0, mapped);
    rig.driver.releaseMemory(memory);
    rig.words();
    assert.equal(rig.driver.isIdle(waiter), false);
  });

  it("registers one memory file twice, for writing and read-only", async () => {
    const words = rig.words();
    const mapping = rig.own(Mapping.shared(words.fd, 4096, "read-write"), (it) => it.close());
    const second = rig.driver.registerHostMemory(0, mapping.address, 4096, "read");
    rig.own(mapping.address, (it) => rig.driver.unregisterHostMemory(0, it));
    const [waiter, writer] = [rig.stream(), rig.stream()];
    rig.waitOn(waiter, second, 7n, () => Atomics.store(words.cpu, 0, 7n));
    await turns();
    assert.equal(rig.driver.isIdle(waiter), false);
    rig.driver.writeWord(writer, words.pointer, 7n);
    await rig.done(waiter);
  });

  it("leaves nothing behind if any call of the seam fails", async () => {
    for (let failAt = 1; ; failAt += 1) {
      const attempt = new ConformanceRig(driver);
      const failing = createFailingDriver(driver, { failAt });
      const memory = attempt.memory(1);
      try {
        const fd = attempt.own(failing.driver.exportMemory(memory), (it) => it.close());
        const imported = attempt.own(
          failing.driver.importMemory(0, fd, memory.byteLength),
          driver.releaseMemory,
        );
        attempt.own(failing.driver.mapMemory(imported, "read"), (it) => driver.unmapMemory(0, it));
      } catch (error) {
        assert.ok(error instanceof CudaIpcError);
      }
      await attempt.end();
      if (failing.failed === undefined) break;
    }
  });

  it("imports onto a second GPU", async (t) => {
    if (driver.deviceCount() < 2) return t.skip("one GPU");
    const { pointer, memory, byteLength } = rig.buffer(1);
    const content = noise(byteLength, 1);
    await rig.write(pointer, content);
    const imported = rig.own(rig.driver.importMemory(1, rig.exported(memory), byteLength), (it) => {
      rig.driver.releaseMemory(it);
    });
    const there = rig.own(rig.driver.mapMemory(imported, "read"), (it) =>
      rig.driver.unmapMemory(1, it),
    );
    const stream = rig.own(rig.driver.createStream(1), (it) => rig.driver.destroyStream(it));
    const staging = rig.own(rig.driver.allocateStaging(1, byteLength), (it) =>
      rig.driver.freeStaging(it),
    );
    rig.driver.copyToHost(stream, staging.address, there, byteLength);
    await rig.done(stream);
    assert.deepEqual(Uint8Array.from(staging.bytes), content);
  });

  describe("where the manual is silent, either works or throws our error:", () => {
    it("a descriptor that claims less than its memory", (t) => {
      const memory = rig.memory(2 * rig.granularity);
      tell(t, () => {
        const part = rig.imported(rig.exported(memory), rig.granularity);
        rig.map(part);
      });
    });

    it("exporting memory that was imported", (t) => {
      const memory = rig.memory(1);
      const imported = rig.imported(rig.exported(memory), memory.byteLength);
      tell(t, () => rig.exported(imported));
    });

    for (const path of ["/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/proc/self/status"]) {
      it(`importing ${path}`, (t) => {
        if (!existsSync(path)) return t.skip("no such file");
        const fd = rig.own(new OwnedFd(openSync(path, "r")), (it) => it.close());
        tell(t, () => rig.imported(fd, rig.granularity));
      });
    }

    it("a claim of more than any GPU has", (t) => {
      const fd = rig.exported(rig.memory(1));
      tell(t, () => rig.map(rig.imported(fd, rig.granularity * 2 ** 20)));
      tell(t, () => rig.map(rig.imported(fd, rig.granularity * 2 ** 31)));
    });
  });
}

/** Accepts a result, or one of our errors. The run's report says which one it was. */
function tell(t: TestContext, attempt: () => unknown): void {
  try {
    attempt();
    t.diagnostic("does it");
  } catch (error) {
    assert.ok(error instanceof CudaIpcError, String(error));
    t.diagnostic(`${error.code}: ${error.message}`);
  }
}

if (reason === undefined) describe("the CUDA driver on this GPU", cudaTests);
else it("the CUDA driver on this GPU", { skip: reason }, () => {});
