import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import { cuDeviceAttribute } from "../../../../src/ffi/cuda-constants.js";
import { FakeLibcuda, type FakeOptions } from "./fake-libcuda.js";

function describeFake(options: FakeOptions) {
  const fake = new FakeLibcuda(options);
  return { fake, facts: createCudaDriver({ load: fake.load }).describeDevice(0) };
}

describe("describeDevice", () => {
  it("formats the driver's answers", () => {
    const { facts } = describeFake({ version: 12_080 });
    assert.deepEqual(facts.reference, {
      kind: "cuda",
      uuid: "GPU-00112233-4455-6677-8899-aabbccddeeff",
    });
    assert.equal(facts.name, "Fake GPU");
    assert.equal(facts.driverVersion, "CUDA 12.8");
    assert.equal(facts.computeCapability, "9.1");
    assert.equal(facts.totalBytes, 64 * 1024 * 1024);
    assert.equal(facts.granularityBytes, 2 * 1024 * 1024);
    assert.equal(Object.keys(facts.attributes).length, Object.keys(cuDeviceAttribute).length);
    assert.equal(facts.attributes.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1);
  });

  it("leaves out attributes that the driver is too old to know", () => {
    const last = Object.keys(cuDeviceAttribute).length;
    const { facts } = describeFake({
      status: (name, nth) => (name === "cuDeviceGetAttribute" && nth === last ? 1 : undefined),
    });
    assert.equal("HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED" in facts.attributes, false);
    assert.equal(Object.keys(facts.attributes).length, last - 1);
  });

  it("reads the granularity in a context if the driver wants one", () => {
    const { fake, facts } = describeFake({
      status: (name, nth) =>
        name === "cuMemGetAllocationGranularity" && nth === 1 ? 201 : undefined,
    });
    assert.equal(facts.granularityBytes, 2 * 1024 * 1024);
    assert.equal(fake.live.contexts, 1);
  });

  it("describes a device that cannot map memory", () => {
    const { facts } = describeFake({
      status: (name) => (name === "cuMemGetAllocationGranularity" ? 801 : undefined),
    });
    assert.equal(facts.granularityBytes, 2 * 1024 * 1024);
  });
});
