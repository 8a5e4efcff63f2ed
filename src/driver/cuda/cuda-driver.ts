/** The CUDA driver: puts the parts of this folder together as the seam's `GpuDriver`. */
import { releaseAll } from "../../base/scope.js";
import type { LoadLibrary } from "../../ffi/libcuda.js";
import type { GpuDriver } from "../gpu-driver.js";
import { CudaAddresses } from "./cuda-addresses.js";
import { cudaDevices, granularity } from "./cuda-device.js";
import { CudaElementOperations } from "./cuda-element-operations.js";
import { cudaEvents } from "./cuda-events.js";
import { cudaHostMemory } from "./cuda-host-memory.js";
import { cudaLaunches } from "./cuda-launches.js";
import { cudaLegacy } from "./cuda-legacy.js";
import { cudaMappings } from "./cuda-mapping.js";
import { cudaMemory } from "./cuda-memory.js";
import { cudaModules } from "./cuda-modules.js";
import { cudaPools } from "./cuda-pools.js";
import { CudaSession } from "./cuda-session.js";
import { cudaStreamCalls } from "./cuda-stream-calls.js";
import { CudaStreams } from "./cuda-streams.js";

export interface CudaDriverOptions {
  /** Opens a shared library by name. A test passes its own in place of libcuda. */
  readonly load?: LoadLibrary;
}

/**
 * Opens libcuda and initialises it (cuInit). A device's context starts with the first call that
 * needs it. After `close()` every call throws CLOSED.
 * @throws DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND if there is no GPU
 */
export function createCudaDriver(options: CudaDriverOptions = {}): GpuDriver {
  const session = CudaSession.open(options.load);
  const addresses = new CudaAddresses();
  const streams = new CudaStreams(session, addresses);
  const memoryCalls = {
    ...cudaMemory(session),
    ...cudaMappings(session, addresses),
    ...cudaHostMemory(session, addresses),
  };
  const streamCalls = cudaStreamCalls(session, addresses, streams);
  const moduleCalls = cudaModules(session);
  const { launchKernel, launchOwn } = cudaLaunches(session, streams);
  const operations = new CudaElementOperations({
    ...memoryCalls,
    ...moduleCalls,
    fill: streamCalls.fill,
    copyToHost: streamCalls.copyToHost,
    launch: launchOwn,
    granularityBytes: (ordinal) => granularity(session, ordinal),
    checkStream: (stream) => void streams.usable(stream),
    check: (ordinal, address, byteLength, access) =>
      addresses.check(ordinal, address, byteLength, access),
  });
  return keepingContext(session, {
    mechanism: "vmm",
    cpuVisible: false,
    memoryFiles: false,
    losesContext: true,

    ...cudaDevices(session),
    ...memoryCalls,
    ...streamCalls,
    ...cudaEvents(session, streams),
    ...cudaLegacy(session, addresses),
    ...cudaPools(session, addresses, streams),
    ...moduleCalls,
    launchKernel,
    enqueueOperation: (stream, operation) => operations.enqueueOperation(stream, operation),
    enqueueReduction: (stream, reduction) => operations.enqueueReduction(stream, reduction),
    prepareOperations: (ordinal) => operations.prepareOperations(ordinal),

    close: () => releaseAll([() => operations.close(), () => session.close()]),
  });
}

/**
 * The hot calls. They make a context current only in `CudaSession.within`, which leaves it. WHY not
 * wrapped like all others: that would cost as much as the FFI.
 */
const hotCalls: ReadonlySet<string> = new Set<keyof GpuDriver>([
  "waitWord",
  "writeWord",
  "batchWords",
  "launchKernel",
  "isIdle",
  "recordEvent",
  "isEventDone",
  "waitEvent",
  "allocateFromPool",
  "freeToPool",
]);

type DriverCall = (...values: unknown[]) => unknown;

/** Each call of the result leaves the CUDA context of its thread as it found it. */
function keepingContext(session: CudaSession, driver: GpuDriver): GpuDriver {
  const leaving =
    (call: DriverCall): DriverCall =>
    (...values) => {
      try {
        return call(...values);
      } finally {
        session.leave();
      }
    };
  const members = Object.entries(driver).map(([name, member]) => {
    const isKept = typeof member !== "function" || hotCalls.has(name);
    return [name, isKept ? member : leaving(member as DriverCall)];
  });
  return Object.fromEntries(members) as GpuDriver;
}
