/**
 * A driver whose n-th call fails, for tests that try every n and check that nothing leaks. Calls
 * that acquire or enqueue fail without running. Calls that release run first and then fail, so the
 * counts show only leaks of the caller.
 */
import { CudaIpcError } from "../../src/base/errors.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { type DriverCall, interceptDriver } from "./intercept-driver.js";

const releases: ReadonlySet<DriverCall> = new Set([
  "releaseMemory",
  "unmapMemory",
  "freeStaging",
  "unregisterHostMemory",
  "destroyStream",
  "destroyEvent",
  "freeLegacy",
  "closeLegacy",
  "destroyPool",
  "freeToPool",
  "unloadModule",
  "releaseReservation",
  "close",
] as const);

export interface FailingDriverOptions {
  /**
   * The number of the call that fails, from 1. If it is larger than the number of calls, none
   * fails.
   */
  readonly failAt: number;
  /** Which calls are counted; all by default. */
  readonly only?: readonly DriverCall[];
  /** What the call throws; CUDA_ERROR in words by default. */
  readonly error?: (call: DriverCall) => unknown;
}

export interface FailingDriver {
  readonly driver: GpuDriver;
  /** Counted calls so far. */
  readonly calls: number;
  /** The call that failed. If it stays undefined, n is larger than the number of calls. */
  readonly failed: DriverCall | undefined;
}

export function createFailingDriver(
  driver: GpuDriver,
  options: FailingDriverOptions,
): FailingDriver {
  const state: { calls: number; failed: DriverCall | undefined } = { calls: 0, failed: undefined };
  const counted = options.only === undefined ? undefined : new Set(options.only);

  function fail(call: DriverCall): void {
    if (counted !== undefined && !counted.has(call)) return;
    state.calls += 1;
    if (state.calls !== options.failAt) return;
    state.failed = call;
    const message = `Cannot ${call}: call ${state.calls} was made to fail`;
    throw options.error?.(call) ?? new CudaIpcError("CUDA_ERROR", message);
  }

  const failing = interceptDriver(driver, {
    before(call) {
      if (!releases.has(call)) fail(call);
    },
    after(call) {
      if (releases.has(call)) fail(call);
    },
  });
  return {
    driver: failing,
    get calls() {
      return state.calls;
    },
    get failed() {
      return state.failed;
    },
  };
}
