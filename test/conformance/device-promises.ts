import assert from "node:assert/strict";
import { it } from "node:test";
import { uuidOf } from "../../src/base/device-reference.js";
import { hasCode } from "../../src/base/errors.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

export function devicePromises({ rig, createDriver }: Subject): void {
  it("describes every device", () => {
    const { driver } = rig();
    assert.ok(driver.deviceCount() >= 1);
    const uuids = new Set<string>();
    for (let ordinal = 0; ordinal < driver.deviceCount(); ordinal += 1) {
      const facts = driver.describeDevice(ordinal);
      assert.equal(facts.ordinal, ordinal);
      assert.match(
        uuidOf(facts.reference),
        /^(host|GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/,
      );
      assert.notEqual(facts.name, "");
      assert.ok(facts.totalBytes > 0);
      assert.ok(
        facts.granularityBytes >= 4096 && Number.isInteger(Math.log2(facts.granularityBytes)),
      );
      assert.match(facts.driverVersion, /^(CUDA|Linux) \d+\.\d+$/);
      uuids.add(uuidOf(facts.reference));
    }
    assert.equal(uuids.size, driver.deviceCount());
  });

  it("reports free memory, at most the total", () => {
    const { freeBytes, totalBytes } = rig().driver.memoryInfo(0);
    assert.ok(freeBytes > 0 && freeBytes <= totalBytes);
  });

  it("refuses an unknown device with DEVICE_NOT_FOUND", () => {
    const { driver } = rig();
    const attempts = [
      () => driver.describeDevice(9),
      () => driver.memoryInfo(9),
      () => driver.createMemory(9, 4096),
      () => driver.createStream(9),
      () => driver.allocateStaging(9, 64),
    ];
    for (const attempt of attempts)
      assert.throws(attempt, (error) => hasCode(error, "DEVICE_NOT_FOUND"));
    assert.throws(() => driver.describeDevice(-1), RangeError);
  });

  it("reaches its own memory, and copies between devices in the order of a stream", async () => {
    const { driver } = rig();
    assert.equal(driver.canAccessPeer(0, 0), true);
    driver.enablePeerAccess(0, 0);
    assert.throws(
      () => driver.canAccessPeer(0, 9),
      (error) => hasCode(error, "DEVICE_NOT_FOUND"),
    );
    const bytes = noise(100_003, 11);
    const [from, to] = [rig().buffer(bytes.byteLength), rig().buffer(bytes.byteLength)];
    await rig().write(from.pointer, bytes);
    const stream = rig().stream();
    driver.copyBetweenDevices(
      stream,
      { ordinal: 0, pointer: to.pointer },
      { ordinal: 0, pointer: from.pointer },
      bytes.byteLength,
    );
    await rig().done(stream);
    assert.deepEqual(await rig().read(to.pointer, bytes.byteLength), bytes);
    const late = { ordinal: 0, pointer: from.pointer + BigInt(from.byteLength - 8) };
    assert.throws(
      () => driver.copyBetweenDevices(stream, { ordinal: 0, pointer: to.pointer }, late, 9),
      RangeError,
    );
  });

  it("throws CLOSED for every call after close", () => {
    const driver = createDriver();
    const memory = driver.createMemory(0, driver.describeDevice(0).granularityBytes);
    const stream = driver.createStream(0);
    driver.releaseMemory(memory);
    driver.destroyStream(stream);
    driver.close();
    driver.close();
    for (const attempt of callsOnClosed(driver, memory, stream)) {
      assert.throws(attempt, (error) => hasCode(error, "CLOSED"), attempt.toString());
    }
  });
}

type Attempts = readonly (() => unknown)[];

function callsOnClosed(
  driver: GpuDriver,
  memory: Parameters<GpuDriver["mapMemory"]>[0],
  stream: Parameters<GpuDriver["isIdle"]>[0],
): Attempts {
  return [
    () => driver.deviceCount(),
    () => driver.describeDevice(0),
    () => driver.memoryInfo(0),
    () => driver.createMemory(0, 4096),
    () => driver.exportMemory(memory),
    () => driver.mapMemory(memory, "read"),
    () => driver.releaseMemory(memory),
    () => driver.unmapMemory(0, 4096n),
    () => driver.allocateStaging(0, 4096),
    () => driver.registerHostMemory(0, 4096n, 4096, "read"),
    () => driver.unregisterHostMemory(0, 4096n),
    () => driver.createStream(0),
    () => driver.destroyStream(stream),
    () => driver.isIdle(stream),
    () => driver.copyOnDevice(stream, 4096n, 4096n, 8),
    () => driver.fill(stream, 4096n, { elementBytes: 1, value: 0 }, 8),
    () => driver.waitWord(stream, 4096n, 1n),
    () => driver.writeWord(stream, 4096n, 1n),
    () => driver.createEvent(0),
    () => driver.importEvent(0, new Uint8Array(64)),
    () => driver.allocateLegacy(0, 2 ** 21),
    () => driver.freeLegacy(0, 4096n),
    () => driver.exportLegacy(0, 4096n),
    () => driver.importLegacy(0, new Uint8Array(64), "read"),
    () => driver.closeLegacy(0, 4096n),
  ];
}
