import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemProbes } from "../../../src/client/probe-system.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Device } from "../../../src/gpu/device.js";
import { deviceProbes } from "../../../src/gpu/probe-device.js";
import { createCountingDriver } from "../../../src/testing/live-counts.js";

/** The host device with some calls done otherwise. */
function lyingDevice(changes: (honest: GpuDriver) => Partial<GpuDriver>): Device {
  const honest = createHostDriver();
  const lies = new Map<PropertyKey, unknown>(Object.entries(changes(honest)));
  const driver = new Proxy(honest, {
    get(target, key) {
      if (lies.has(key)) return lies.get(key);
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return Device.open("host", () => driver);
}

function probe(name: string): (device: Device) => Promise<string> {
  const found = deviceProbes.find((each) => each.name === name);
  assert.ok(found !== undefined, name);
  return found.run;
}

describe("deviceProbes", () => {
  for (const { name, run } of deviceProbes) {
    it(`pass on the host device and leave nothing behind: ${name}`, async () => {
      const { driver, counts } = createCountingDriver(createHostDriver());
      using device = Device.open("host", () => driver);
      await run(device);
      device.lanes.close();
      const { memories, mappings, stagings, registrations, streams } = counts();
      assert.deepEqual([memories, mappings, stagings, registrations, streams], [0, 0, 0, 0, 0]);
    });
  }

  it("see a copy that copies nothing", async () => {
    using device = lyingDevice(() => ({ copyOnDevice: () => {} }));
    await assert.rejects(probe("copies")(device), { code: "VERIFICATION_FAILED", message: /^Byte 1 of a copy is 0/ });
  });

  it("see memory that is not the one that was exported", async () => {
    using device = lyingDevice((honest) => ({
      importMemory: (ordinal, _fd, byteLength) => honest.createMemory(ordinal, byteLength),
    }));
    await assert.rejects(probe("shared memory")(device), { code: "VERIFICATION_FAILED" });
  });

  for (const name of ["waiting", "waiting, read-only"]) {
    it(`see a stream that does not wait: ${name}`, async () => {
      using device = lyingDevice(() => ({ waitWord: () => {} }));
      await assert.rejects(probe(name)(device), { code: "VERIFICATION_FAILED", message: /did not wait/ });
    });
  }

  it("see a stream that writes another value", async () => {
    using device = lyingDevice((honest) => ({
      writeWord: (stream, pointer) => honest.writeWord(stream, pointer, 3n),
    }));
    await assert.rejects(probe("waiting")(device), { code: "TIMEOUT" });
  });
});

describe("systemProbes", () => {
  for (const { name, run } of systemProbes) {
    it(`pass here: ${name}`, () => {
      assert.match(run(), /\S/);
    });
  }
});
