/**
 * A driver that counts what was acquired and not yet released. Equal counts before and after a test
 * mean that nothing leaked.
 */
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import type { PendingReduction } from "../../src/driver/operation-calls.js";
import { type ProcessCounts, processCounts } from "../../src/driver/process-counts.js";
import { type DriverCall, interceptDriver } from "./intercept-driver.js";

export interface LiveCounts extends ProcessCounts {
  readonly memories: number;
  readonly mappings: number;
  readonly stagings: number;
  readonly registrations: number;
  readonly streams: number;
  readonly events: number;
  readonly legacies: number;
  readonly pools: number;
  /** Allocations in and imports from pools. */
  readonly pooled: number;
  readonly modules: number;
  readonly reservations: number;
  /** Reductions whose result was neither taken nor discarded. */
  readonly reductions: number;
}

type Counted = Exclude<keyof LiveCounts, keyof ProcessCounts>;

const changes: Partial<Record<DriverCall, readonly [Counted, 1 | -1]>> = {
  createMemory: ["memories", 1],
  importMemory: ["memories", 1],
  releaseMemory: ["memories", -1],
  mapMemory: ["mappings", 1],
  unmapMemory: ["mappings", -1],
  allocateStaging: ["stagings", 1],
  freeStaging: ["stagings", -1],
  registerHostMemory: ["registrations", 1],
  unregisterHostMemory: ["registrations", -1],
  createStream: ["streams", 1],
  destroyStream: ["streams", -1],
  createEvent: ["events", 1],
  importEvent: ["events", 1],
  destroyEvent: ["events", -1],
  allocateLegacy: ["legacies", 1],
  freeLegacy: ["legacies", -1],
  importLegacy: ["legacies", 1],
  closeLegacy: ["legacies", -1],
  createPool: ["pools", 1],
  importPool: ["pools", 1],
  destroyPool: ["pools", -1],
  allocateFromPool: ["pooled", 1],
  importPoolPointer: ["pooled", 1],
  freeToPool: ["pooled", -1],
  loadModule: ["modules", 1],
  unloadModule: ["modules", -1],
  reserveAddresses: ["reservations", 1],
  releaseReservation: ["reservations", -1],
};

export interface CountingDriver {
  readonly driver: GpuDriver;
  /** The counts of this driver. Descriptors and mapped bytes are of the whole process. */
  counts(): LiveCounts;
}

export function createCountingDriver(driver: GpuDriver): CountingDriver {
  const live: Record<Counted, number> = {
    memories: 0,
    mappings: 0,
    stagings: 0,
    registrations: 0,
    streams: 0,
    events: 0,
    legacies: 0,
    pools: 0,
    pooled: 0,
    modules: 0,
    reservations: 0,
    reductions: 0,
  };
  const counting = interceptDriver(driver, {
    after(call) {
      const change = changes[call];
      if (change !== undefined) live[change[0]] += change[1];
    },
    result(call, result) {
      if (call !== "enqueueReduction") return result;
      live.reductions += 1;
      return counted(result as PendingReduction<unknown>, () => {
        live.reductions -= 1;
      });
    },
  });
  return { driver: counting, counts: () => ({ ...live, ...processCounts() }) };
}

/** Calls `onEnd` once, when the result is taken or discarded. */
function counted(pending: PendingReduction<unknown>, onEnd: () => void): PendingReduction<unknown> {
  let ended = false;
  const end = () => {
    if (ended) return;
    ended = true;
    onEnd();
  };
  return {
    result() {
      end();
      return pending.result();
    },
    discard() {
      end();
      pending.discard();
    },
  };
}
