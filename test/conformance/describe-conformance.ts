/** The promises of the seam, for a driver of any kind. */
import { after, afterEach, before, beforeEach, describe } from "node:test";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { ConformanceRig } from "./conformance-rig.js";
import { devicePromises } from "./device-promises.js";
import { kernelPromises } from "./kernel-promises.js";
import { memoryPromises } from "./memory-promises.js";
import { processPromises } from "./process-promises.js";
import { streamPromises } from "./stream-promises.js";
import { wordPromises } from "./word-promises.js";

/** What a group of promises gets: the rig of the test that is running, and a driver of its own where it needs a fresh one. */
export interface Subject {
  rig(): ConformanceRig;
  createDriver(): GpuDriver;
}

export function describeConformance(name: string, createDriver: () => GpuDriver): void {
  describe(name, () => {
    let driver: GpuDriver;
    let current: ConformanceRig;
    before(() => {
      driver = createDriver();
    });
    beforeEach(() => {
      current = new ConformanceRig(driver);
    });
    afterEach(() => current.end());
    after(() => driver.close());

    const subject: Subject = { rig: () => current, createDriver };
    describe("devices", () => devicePromises(subject));
    describe("memory", () => memoryPromises(subject));
    describe("streams", () => streamPromises(subject));
    describe("words", () => wordPromises(subject));
    describe("kernels", () => kernelPromises(subject));
    describe("processes", () => processPromises(subject));
  });
}
