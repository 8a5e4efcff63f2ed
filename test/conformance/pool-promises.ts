import assert from "node:assert/strict";
import { openSync, readFileSync } from "node:fs";
import { it } from "node:test";
import type { ErrorCode } from "../../src/base/error-codes.js";
import { hasCode } from "../../src/base/errors.js";
import type { DevicePointer, DriverStream } from "../../src/driver/gpu-driver.js";
import type { DriverPool, PoolOptions } from "../../src/driver/pool-calls.js";
import { createMemoryFile } from "../../src/os/memory-file.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { type ConformanceRig, noise, turns } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import { runActor } from "./run-actor.js";

const MiB = 1024 * 1024;
const KiB = 1024;
const O_CLOEXEC = 0o2000000;
const COUNT = 1024;

const USUAL: PoolOptions = { maxBytes: 64 * MiB, releaseThresholdBytes: 64 * MiB, shared: false };

function newPool(rig: ConformanceRig, options: Partial<PoolOptions> = {}): DriverPool {
  return rig.own(rig.driver.createPool(0, { ...USUAL, ...options }), (it) =>
    rig.driver.destroyPool(it),
  );
}

function allocated(
  rig: ConformanceRig,
  pool: DriverPool,
  byteLength: number,
  stream: DriverStream,
): DevicePointer {
  const pointer = rig.driver.allocateFromPool(pool, byteLength, stream);
  return rig.own(pointer, (it) => rig.driver.freeToPool(it, stream));
}

function assertCode(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => hasCode(error, code), `${code}: ${attempt}`);
}

export function poolPromises(subject: Subject): void {
  allocationPromises(subject);
  refusalPromises(subject);
  sharingPromises(subject);
}

function allocationPromises({ rig }: Subject): void {
  it("allocates separate memory, within which operations are checked", async () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    const [a, b] = [
      allocated(rig(), pool, 64 * KiB, stream),
      allocated(rig(), pool, 64 * KiB, stream),
    ];
    assert.ok(a % 512n === 0n && b % 512n === 0n);
    await rig().done(stream);
    await rig().write(a, noise(64 * KiB, 1));
    await rig().write(b, noise(64 * KiB, 2));
    assert.deepEqual(await rig().read(a, 64 * KiB), noise(64 * KiB, 1));
    assert.deepEqual(await rig().read(b, 64 * KiB), noise(64 * KiB, 2));
    assert.throws(
      () => driver.fill(stream, a, { elementBytes: 1, value: 0 }, 64 * KiB + 1),
      RangeError,
    );
    assert.throws(() => driver.unmapMemory(0, a), RangeError);
    assert.deepEqual(await rig().read(a, 64 * KiB), noise(64 * KiB, 1));
  });

  it("reuses freed memory any number of times", async () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    for (let round = 0; round < 200; round += 1) {
      const pointer = driver.allocateFromPool(pool, 40 * MiB, stream);
      driver.fill(stream, pointer + 4096n, { elementBytes: 1, value: 7 }, 4096);
      driver.freeToPool(pointer, stream);
    }
    await rig().done(stream);
    assert.ok(driver.poolStatistics(pool).reservedHighBytes <= 64 * MiB);
  });

  it("refuses more than the pool holds with OUT_OF_MEMORY, and still works", async () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    assertCode("OUT_OF_MEMORY", () => driver.allocateFromPool(pool, 1024 * MiB, stream));
    allocated(rig(), pool, MiB, stream);
    await rig().done(stream);
  });

  it("frees in stream order: earlier work still finds the memory unchanged", async () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const [reader, other] = [rig().stream(), rig().stream()];
    const staging = rig().staging(MiB);
    const words = rig().words();
    const a = driver.allocateFromPool(pool, MiB, reader);
    driver.fill(reader, a, { elementBytes: 1, value: 1 }, MiB);
    await rig().done(reader);
    rig().wait(reader, words, 0, 1n);
    driver.copyToHost(reader, staging.address, a, MiB);
    driver.freeToPool(a, reader);
    const b = driver.allocateFromPool(pool, MiB, other);
    driver.fill(other, b, { elementBytes: 1, value: 2 }, MiB);
    driver.freeToPool(b, other);
    await turns();
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(reader);
    await rig().done(other);
    assert.deepEqual([...new Set(staging.bytes)], [1]);
    assert.equal(driver.poolStatistics(pool).usedBytes, 0);
  });

  it("reports what it uses and keeps, and trims", async () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    assert.equal(driver.poolStatistics(pool).usedBytes, 0);
    const pointer = driver.allocateFromPool(pool, 8 * MiB, stream);
    await rig().done(stream);
    const used = driver.poolStatistics(pool);
    assert.equal(used.usedBytes, 8 * MiB);
    assert.ok(used.reservedBytes >= 8 * MiB && used.reservedHighBytes >= used.reservedBytes);
    driver.freeToPool(pointer, stream);
    await rig().done(stream);
    const kept = driver.poolStatistics(pool);
    assert.deepEqual(
      [kept.usedBytes, kept.usedHighBytes, kept.reservedBytes],
      [0, 8 * MiB, used.reservedBytes],
    );
    driver.trimPool(pool, 0);
    assert.ok(driver.poolStatistics(pool).reservedBytes < used.reservedBytes);
  });
}

function refusalPromises({ rig }: Subject): void {
  it("refuses impossible arguments", () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    for (const wrong of [0, -1, 0.5, Number.NaN]) {
      assert.throws(() => driver.createPool(0, { ...USUAL, maxBytes: wrong }), RangeError);
      assert.throws(() => driver.allocateFromPool(pool, wrong, stream), RangeError);
    }
    assert.throws(() => driver.createPool(0, { ...USUAL, releaseThresholdBytes: -1 }), RangeError);
    assert.throws(() => driver.trimPool(pool, -1), RangeError);
    assert.throws(() => driver.destroyPool({ ordinal: 0, imported: false }), TypeError);
    assertCode("DEVICE_NOT_FOUND", () => driver.createPool(9, USUAL));
  });

  it("refuses to free memory that is not of a pool, and to free twice", () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const stream = rig().stream();
    const pointer = driver.allocateFromPool(pool, MiB, stream);
    assert.throws(() => driver.freeToPool(pointer + 512n, stream), RangeError);
    assert.throws(() => driver.freeToPool(rig().buffer(1).pointer, stream), RangeError);
    driver.freeToPool(pointer, stream);
    assert.throws(() => driver.freeToPool(pointer, stream), RangeError);
    assert.throws(() => driver.exportPoolPointer(pointer), RangeError);
  });

  it("destroyPool() throws IN_USE while allocations are left, and CLOSED the second time", () => {
    const { driver } = rig();
    const stream = rig().stream();
    const pool = driver.createPool(0, { ...USUAL, shared: true });
    const pointer = driver.allocateFromPool(pool, MiB, stream);
    assertCode("IN_USE", () => driver.destroyPool(pool));
    driver.freeToPool(pointer, stream);
    driver.destroyPool(pool);
    assertCode("CLOSED", () => driver.destroyPool(pool));
    assertCode("CLOSED", () => driver.allocateFromPool(pool, 1, stream));
    assertCode("CLOSED", () => driver.exportPool(pool));
    assertCode("CLOSED", () => driver.poolStatistics(pool));
    assertCode("CLOSED", () => driver.trimPool(pool, 0));
    assertCode("CLOSED", () => driver.importPoolPointer(pool, new Uint8Array(64)));
  });

  it("destroys a pool whose frees are not reached yet", async () => {
    const { driver } = rig();
    const stream = rig().stream();
    const words = rig().words();
    const staging = rig().staging(4096);
    const pool = driver.createPool(0, USUAL);
    const pointer = driver.allocateFromPool(pool, 4096, stream);
    driver.fill(stream, pointer, { elementBytes: 1, value: 9 }, 4096);
    rig().wait(stream, words, 0, 1n);
    driver.copyToHost(stream, staging.address, pointer, 4096);
    driver.freeToPool(pointer, stream);
    driver.destroyPool(pool);
    await turns();
    Atomics.store(words.cpu, 0, 1n);
    await rig().done(stream);
    assert.deepEqual([...new Set(staging.bytes)], [9]);
  });

  it("exports nothing of a pool that is not shared", () => {
    const { driver } = rig();
    const pool = newPool(rig());
    const pointer = allocated(rig(), pool, MiB, rig().stream());
    assertCode("UNSUPPORTED", () => driver.exportPool(pool));
    assertCode("UNSUPPORTED", () => driver.exportPoolPointer(pointer));
  });

  it("refuses any other descriptor with INVALID_DESCRIPTOR", () => {
    const { driver } = rig();
    const nothing = rig().own(new OwnedFd(openSync("/dev/null", "r+")), (it) => it.close());
    const file = rig().own(createMemoryFile("no pool", 8192), (it) => it.close());
    const before = rig().counts();
    for (const fd of [nothing, file])
      assertCode("INVALID_DESCRIPTOR", () => driver.importPool(0, fd));
    assert.deepEqual(rig().counts(), before);
  });
}

function sharingPromises({ rig }: Subject): void {
  it("exports a descriptor with close-on-exec", () => {
    const pool = newPool(rig(), { shared: true });
    const fd = rig().own(rig().driver.exportPool(pool), (it) => it.close());
    const flags = /^flags:\s*([0-7]+)$/m.exec(
      readFileSync(`/proc/self/fdinfo/${fd.number}`, "utf8"),
    )?.[1];
    assert.ok((Number.parseInt(flags ?? "0", 8) & O_CLOEXEC) !== 0, `flags ${flags}`);
  });

  it("gives every allocation its own bytes, and the same ones on every call", () => {
    const { driver } = rig();
    const pool = newPool(rig(), { shared: true });
    const stream = rig().stream();
    const [a, b] = [allocated(rig(), pool, MiB, stream), allocated(rig(), pool, MiB, stream)];
    const exported = driver.exportPoolPointer(a);
    assert.equal(exported.byteLength, 64);
    assert.deepEqual(driver.exportPoolPointer(a), exported);
    assert.notDeepEqual(driver.exportPoolPointer(b), exported);
    assertCode("OWN_HANDLE", () => driver.importPoolPointer(pool, exported));
  });

  it("shares an allocation with another process, but not the exporter's rights", async () => {
    const { driver } = rig();
    const [pool, other] = [newPool(rig(), { shared: true }), newPool(rig(), { shared: true })];
    const fds = [pool, other].map((it) => rig().own(driver.exportPool(it), (fd) => fd.close()));
    const stream = rig().stream();
    const [pointer, elsewhere] = [
      allocated(rig(), pool, 4 * COUNT, stream),
      allocated(rig(), other, 4096, stream),
    ];
    await rig().done(stream);
    const integers = new Int32Array(COUNT).map((_, i) => i + 100);
    await rig().write(pointer, new Uint8Array(integers.buffer));
    const exported = [pointer, elsewhere].map((it) =>
      Buffer.from(driver.exportPoolPointer(it)).toString("base64"),
    );

    const args = [rig().kind, String(COUNT), ...exported];
    await runActor(
      "pool-import",
      args,
      fds.map((fd) => fd.number),
    );
    const answer = new Int32Array((await rig().read(pointer, 4 * COUNT)).buffer);
    assert.deepEqual(
      answer,
      integers.map((_, i) => -i),
    );
  });

  it("refuses the bytes of freed memory, also after the memory was reused", (t) => {
    if (rig().kind === "cuda") return t.skip("the driver does not say");
    const { driver } = rig();
    const pool = newPool(rig(), { shared: true });
    const stream = rig().stream();
    const fd = rig().own(driver.exportPool(pool), (it) => it.close());
    const imported = rig().own(driver.importPool(0, fd), (it) => driver.destroyPool(it));
    const first = driver.allocateFromPool(pool, MiB, stream);
    const bytes = driver.exportPoolPointer(first);
    driver.freeToPool(first, stream);
    assertCode("INVALID_HANDLE", () => driver.importPoolPointer(imported, bytes));
    const second = allocated(rig(), pool, MiB, stream);
    assert.equal(second, first, "the same place, with another generation");
    assertCode("INVALID_HANDLE", () => driver.importPoolPointer(imported, bytes));
    const { pointer, byteLength } = driver.importPoolPointer(
      imported,
      driver.exportPoolPointer(second),
    );
    assert.equal(byteLength, MiB);
    driver.freeToPool(pointer, stream);
  });
}
