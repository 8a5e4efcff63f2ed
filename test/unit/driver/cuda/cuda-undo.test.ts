import assert from "node:assert/strict";
import { openSync } from "node:fs";
import { describe, it } from "node:test";
import { CudaError } from "../../../../src/base/errors.js";
import { Scope } from "../../../../src/base/scope.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { OwnedFd, openFdCount } from "../../../../src/os/owned-fd.js";
import { interceptDriver } from "../../../support/intercept-driver.js";
import { FakeLibcuda } from "./fake-libcuda.js";

const MiB = 1024 * 1024;
const STATUS = 999;

/** Acquires one of everything and uses it. The caller's scope releases what was acquired. */
function everything(driver: GpuDriver, scope: Scope): void {
  const own = <T>(value: T, release: (value: T) => void): T =>
    scope.own(value, (it) => withRetry(() => release(it)));
  driver.describeDevice(0);
  const memory = own(driver.createMemory(0, 2 * MiB), (it) => driver.releaseMemory(it));
  const pointer = own(driver.mapMemory(memory, "read-write"), (it) => driver.unmapMemory(0, it));
  own(driver.exportMemory(memory), (it) => it.close());
  const fd = own(new OwnedFd(openSync("/dev/null", "r")), (it) => it.close());
  const imported = own(driver.importMemory(0, fd, 2 * MiB), (it) => driver.releaseMemory(it));
  own(driver.mapMemory(imported, "read"), (it) => driver.unmapMemory(0, it));
  const staging = own(driver.allocateStaging(0, 4096), (it) => driver.freeStaging(it));
  const words = own(driver.registerHostMemory(0, 0x5000_0000n, 4096, "read-write"), () =>
    driver.unregisterHostMemory(0, 0x5000_0000n),
  );
  const stream = own(driver.createStream(0), (it) => driver.destroyStream(it));
  driver.copyToDevice(stream, pointer, staging.address, 4096);
  driver.copyToHost(stream, staging.address, pointer, 4096);
  driver.copyOnDevice(stream, pointer, pointer + 4096n, 4096);
  for (const elementBytes of [1, 2, 4] as const)
    driver.fill(stream, pointer, { elementBytes, value: 1 }, 16);
  driver.waitWord(stream, words, 1n);
  driver.writeWord(stream, words, 1n);
  const module = own(driver.loadModule(0, new TextEncoder().encode(".entry k")), (it) =>
    driver.unloadModule(it),
  );
  const launch = { grid: [1, 1, 1], block: [1, 1, 1], sharedBytes: 0 } as const;
  driver.launchKernel(stream, driver.findKernel(module, "k"), launch, [new Uint8Array(8)]);
  driver.isIdle(stream);
  const event = own(driver.createEvent(0), (it) => driver.destroyEvent(it));
  driver.recordEvent(event, stream);
  driver.waitEvent(stream, event);
  driver.isEventDone(event);
  driver.exportEvent(event);
  own(driver.importEvent(0, new Uint8Array(64)), (it) => driver.destroyEvent(it));
  const legacy = own(driver.allocateLegacy(0, 2 * MiB), (it) => driver.freeLegacy(0, it));
  driver.exportLegacy(0, legacy);
  own(driver.importLegacy(0, new Uint8Array(64), "read").pointer, (it) =>
    driver.closeLegacy(0, it),
  );
  poolsAndReservations(driver, own, fd);
}

type Own = <T>(value: T, release: (value: T) => void) => T;

function poolsAndReservations(driver: GpuDriver, own: Own, fd: OwnedFd): void {
  const stream = own(driver.createStream(0), (it) => driver.destroyStream(it));
  const options = { maxBytes: MiB, releaseThresholdBytes: 0, shared: true };
  const pool = own(driver.createPool(0, options), (it) => driver.destroyPool(it));
  const pooled = own(driver.allocateFromPool(pool, 4096, stream), (it) =>
    driver.freeToPool(it, stream),
  );
  own(driver.exportPool(pool), (it) => it.close());
  const data = driver.exportPoolPointer(pooled);
  driver.poolStatistics(pool);
  driver.trimPool(pool, 0);
  const importedPool = own(driver.importPool(0, fd), (it) => driver.destroyPool(it));
  own(driver.importPoolPointer(importedPool, data).pointer, (it) => driver.freeToPool(it, stream));
  const reservation = own(driver.reserveAddresses(0, 8 * MiB), (it) =>
    driver.releaseReservation(it),
  );
  for (let i = 0; i < 2; i += 1) {
    const piece = own(driver.createMemory(0, 2 * MiB), (it) => driver.releaseMemory(it));
    driver.extendMapping(reservation, piece, "read-write");
  }
}

/** Repeats a release only if its context could not be entered, because then it had not begun. */
function withRetry(release: () => void): void {
  try {
    release();
  } catch (error) {
    if (error instanceof CudaError && error.call === "cuCtxPushCurrent") release();
    throw error;
  }
}

/** Returns the first failure of a run, releases included. */
function run(fake: FakeLibcuda): unknown {
  const scope = new Scope();
  const failures: unknown[] = [];
  let driver: GpuDriver | undefined;
  const steps = [
    () => {
      driver = createCudaDriver({ load: fake.load });
    },
    () => driver && everything(driver, scope),
    () => scope.close(),
    () => driver?.close(),
  ];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      failures.push(error);
    }
  }
  return failures[0];
}

describe("the CUDA driver leaves nothing behind", () => {
  it("when every call succeeds", () => {
    const fake = new FakeLibcuda();
    assert.equal(run(fake), undefined);
    assert.equal(fake.everything, 0);
  });

  it("whichever call of libcuda fails", () => {
    const whole = new FakeLibcuda();
    run(whole);
    const fds = openFdCount();
    // Calls whose failure is tolerated: where memory lies, whether a pool already has access, and
    // the end of a call's context.
    const tolerated = [
      "cuMemGetAllocationPropertiesFromHandle",
      "cuMemPoolGetAccess",
      "cuCtxPopCurrent",
    ];
    for (let n = 1; n <= whole.calls.length; n += 1) {
      const fake = new FakeLibcuda({
        status: (_name, _nth, total) => (total === n ? STATUS : undefined),
      });
      const failure = run(fake);
      const name = whole.calls[n - 1] ?? "";
      if (tolerated.includes(name)) assert.equal(failure, undefined);
      else
        assert.ok(
          failure instanceof CudaError && failure.call === name,
          `${name} (call ${n}): ${String(failure)}`,
        );
      assert.deepEqual(fake.live, whole.live, `${name} (call ${n})`);
      const left = name === "cuCtxPopCurrent" ? 1 : 0;
      assert.equal(fake.contexts.length, left, `${name} (call ${n})`);
      assert.equal(openFdCount(), fds, `${name} (call ${n})`);
    }
  });
});

describe("the CUDA driver leaves the context of its caller current", () => {
  const CALLERS = 7n;

  it("after each call of the seam", () => {
    const fake = new FakeLibcuda();
    fake.contexts.push(CALLERS);
    const called = new Set<string>();
    const driver = interceptDriver(createCudaDriver({ load: fake.load }), {
      after: (call) => {
        called.add(call);
        assert.deepEqual(fake.contexts, [CALLERS], call);
      },
    });
    const scope = new Scope();
    everything(driver, scope);
    scope.close();
    driver.close();
    assert.ok(called.size > 30, [...called].join(", "));
    assert.deepEqual(fake.contexts, [CALLERS]);
    assert.ok(fake.calls.lastIndexOf("cuCtxPushCurrent") > 0);
  });

  it("after each call that fails", () => {
    const whole = new FakeLibcuda();
    run(whole);
    for (const [index, name] of whole.calls.entries()) {
      if (name === "cuCtxPopCurrent") continue;
      const fake = new FakeLibcuda({
        status: (_name, _nth, total) => (total === index + 1 ? STATUS : undefined),
      });
      fake.contexts.push(CALLERS);
      run(fake);
      assert.deepEqual(fake.contexts, [CALLERS], `${name} (call ${index + 1})`);
    }
  });
});
