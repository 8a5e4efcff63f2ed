/** The promises of the seam, for any driver. */
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { channelPromises } from "./channel-promises.js";
import { channelStreamPromises } from "./channel-stream-promises.js";
import { ConformanceRig } from "./conformance-rig.js";
import { devicePromises } from "./device-promises.js";
import { eventPromises } from "./event-promises.js";
import { kernelPromises } from "./kernel-promises.js";
import { legacyPromises } from "./legacy-promises.js";
import { memoryPromises } from "./memory-promises.js";
import { operationPromises } from "./operation-promises.js";
import { poolPromises } from "./pool-promises.js";
import { processPromises } from "./process-promises.js";
import { reductionPromises } from "./reduction-promises.js";
import { reservationPromises } from "./reservation-promises.js";
import { streamPromises } from "./stream-promises.js";
import { wordPromises } from "./word-promises.js";

/**
 * The argument of a group of promises: the rig of the running test, and a way to a fresh driver.
 */
export interface Subject {
  rig(): ConformanceRig;
  createDriver(): GpuDriver;
}

export interface ConformanceOptions {
  /** Why this driver runs no kernels. */
  readonly withoutKernels?: string;
  /** How many elements the larger arrays have. */
  readonly large?: number;
}

export function describeConformance(
  name: string,
  createDriver: () => GpuDriver,
  options: ConformanceOptions = {},
): void {
  describeGroups(name, createDriver, (subject) => {
    describe("devices", () => devicePromises(subject));
    describe("memory", () => memoryPromises(subject));
    describe("streams", () => streamPromises(subject));
    describe("words", () => wordPromises(subject));
    describe("an event", () => eventPromises(subject));
    describe("memory with a handle", () => legacyPromises(subject));
    describe("pools", () => poolPromises(subject));
    describe("reservations", () => reservationPromises(subject));
    describe("kernels", () => kernelPromises(subject));
    describe("channels", () => channelPromises(subject));
    describe("channels in the order of streams", () => channelStreamPromises(subject));
    describe("processes", () => processPromises(subject));
    if (options.withoutKernels === undefined) operationGroups(subject, options.large);
    else it("operations and reductions", { skip: options.withoutKernels }, () => {});
  });
}

/** The groups about operations only, for kernels on something slower than a GPU. */
export function describeOperations(
  name: string,
  createDriver: () => GpuDriver,
  large: number,
): void {
  describeGroups(name, createDriver, (subject) => operationGroups(subject, large));
}

function operationGroups(subject: Subject, large?: number): void {
  describe("operations", () => operationPromises(subject, large));
  describe("reductions", () => reductionPromises(subject, large));
}

function describeGroups(
  name: string,
  createDriver: () => GpuDriver,
  groups: (subject: Subject) => void,
): void {
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
    groups({ rig: () => current, createDriver });
  });
}
