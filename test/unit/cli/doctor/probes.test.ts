import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemProbes } from "../../../../src/client/probe-system.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { deviceProbes } from "../../../../src/gpu/probes/probe-device.js";
import { probeCompiler, probePeerAccess } from "../../../../src/gpu/probes/probe-mechanisms.js";
import { createCountingDriver } from "../../../support/live-counts.js";
import { whyNoNvrtc } from "../../../support/nvrtc.js";

/** The host device with some calls replaced. */
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

/** The host device with memory at several places, which are all the same for it. */
function deviceWithPlaces(changes: (honest: GpuDriver) => Partial<GpuDriver> = () => ({})): Device {
  return lyingDevice((honest) => ({
    createMemory: (ordinal, byteLength) => honest.createMemory(ordinal, byteLength),
    importMemory: (ordinal, fd, byteLength) => honest.importMemory(ordinal, fd, byteLength),
    ...changes(honest),
  }));
}

function probe(name: string): (device: Device) => Promise<string> {
  const found = deviceProbes.find((each) => each.name === name);
  assert.ok(found !== undefined, name);
  return found.run;
}

describe("deviceProbes", () => {
  for (const { name, run } of deviceProbes.filter(({ name }) => name !== "host-numa memory")) {
    it(`pass on the host device and leave nothing behind: ${name}`, async () => {
      const { driver, counts } = createCountingDriver(createHostDriver());
      using device = Device.open("host", () => driver);
      await run(device);
      device.lanes.close();
      const { memories, mappings, stagings, registrations, streams } = counts();
      assert.deepEqual([memories, mappings, stagings, registrations, streams], [0, 0, 0, 0, 0]);
    });
  }

  it("report that the host device has no memory beside a GPU", async () => {
    using device = Device.open("host");
    await assert.rejects(probe("host-numa memory")(device), { code: "UNSUPPORTED" });
  });

  it("pass if the CPU and the GPU can both write memory beside the GPU", async () => {
    using device = deviceWithPlaces();
    assert.match(await probe("host-numa memory")(device), /^1 MiB beside the GPU, .+ verified$/);
  });

  it("detect an import of other memory beside a GPU", async () => {
    using device = deviceWithPlaces((honest) => ({
      importMemory: (ordinal, _fd, byteLength) => honest.createMemory(ordinal, byteLength),
    }));
    await assert.rejects(probe("host-numa memory")(device), {
      code: "VERIFICATION_FAILED",
      message: /^Byte 1 of memory that the CPU wrote is 0/,
    });
  });

  it("detect operations with wrong results", async () => {
    for (const kind of ["iota", "affine"] as const) {
      using device = lyingDevice((honest) => ({
        enqueueOperation: (stream, operation) => {
          const wrong =
            operation.kind === kind ? { ...operation, count: operation.count - 1 } : operation;
          honest.enqueueOperation(stream, wrong);
        },
      }));
      await assert.rejects(probe("element operations")(device), { code: "VERIFICATION_FAILED" });
    }
  });

  it("detect a copy that copies nothing", async () => {
    using device = lyingDevice(() => ({ copyOnDevice: () => {} }));
    await assert.rejects(probe("copies")(device), {
      code: "VERIFICATION_FAILED",
      message: /^Byte 1 of a copy is 0/,
    });
  });

  it("detect an import of other memory", async () => {
    using device = lyingDevice((honest) => ({
      importMemory: (ordinal, _fd, byteLength) => honest.createMemory(ordinal, byteLength),
    }));
    await assert.rejects(probe("shared memory")(device), { code: "VERIFICATION_FAILED" });
  });

  for (const name of ["waiting", "waiting, read-only"]) {
    it(`detect a stream that does not wait: ${name}`, async () => {
      using device = lyingDevice(() => ({ waitWord: () => {} }));
      await assert.rejects(probe(name)(device), {
        code: "VERIFICATION_FAILED",
        message: /did not wait/,
      });
    });
  }

  it("detect a stream that writes a wrong value", async () => {
    using device = lyingDevice((honest) => ({
      writeWord: (stream, pointer) => honest.writeWord(stream, pointer, 3n),
    }));
    await assert.rejects(probe("waiting")(device), { code: "TIMEOUT" });
  });
});

describe("probePeerAccess", () => {
  it("uses memory of another device and copies both ways", async () => {
    using device = Device.open("host");
    using other = Device.open("host");
    assert.match(
      await probePeerAccess(device, other),
      /^memory of host mapped on host, and copies both ways, verified$/,
    );
  });

  it("reports that copies work without peer access", async () => {
    using device = lyingDevice(() => ({ canAccessPeer: () => false }));
    using other = Device.open("host");
    const code = "PEER_ACCESS_UNSUPPORTED";
    await assert.rejects(probePeerAccess(device, other), {
      code,
      message: /by way of the host, verified$/,
    });
  });
});

describe("probeCompiler", () => {
  it("names the architecture it compiled for, if there is a compiler", {
    skip: whyNoNvrtc() ?? false,
  }, async () => {
    using device = Device.open("host");
    assert.match(await probeCompiler(device), /^compiled a kernel for compute_\d+$/);
  });
});

describe("systemProbes", () => {
  for (const { name, run } of systemProbes) {
    it(`pass here: ${name}`, () => {
      assert.match(run(), /\S/);
    });
  }
});
