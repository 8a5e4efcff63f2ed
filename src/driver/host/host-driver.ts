/**
 * The host driver: puts the parts of this folder together as the seam's `GpuDriver`. It has one
 * device, whose memory is shared memory of this machine and whose work the CPU does.
 */
import { cpus, release, totalmem } from "node:os";
import { CudaIpcError } from "../../base/errors.js";
import type { DeviceCalls, DeviceFacts, GpuDriver } from "../gpu-driver.js";
import type { KernelCalls } from "../kernel-calls.js";
import { HostAddresses } from "./host-addresses.js";
import { availableBytes } from "./host-capacity.js";
import { hostElementOperations } from "./host-element-operations.js";
import { hostEvents } from "./host-events.js";
import { hostLegacy } from "./host-legacy.js";
import { HOST_GRANULARITY_BYTES, hostMemory } from "./host-memory.js";
import { hostPools } from "./host-pools.js";
import { HostSession } from "./host-session.js";
import { HostStreams, hostStreamCalls } from "./host-streams.js";

const CACHE_LINE_BYTES = 64;

/**
 * Opens the host device, ordinal 0. Its memory is allocated when a page is first touched.
 * After `close()` every call throws CLOSED, and streams that were not destroyed have stopped.
 */
export function createHostDriver(): GpuDriver {
  const session = new HostSession();
  const addresses = new HostAddresses();
  const streams = new HostStreams(session);
  return {
    mechanism: "memfd",
    cpuVisible: true,
    memoryFiles: true,
    losesContext: false,

    ...hostDevice(session),
    ...hostMemory(session, addresses),
    ...hostStreamCalls(session, addresses, streams),
    ...hostEvents(session, streams),
    ...hostLegacy(session, addresses),
    ...hostPools(session, addresses, streams),
    ...hostElementOperations(session, addresses, streams),
    ...withoutKernels,

    close() {
      session.close();
      streams.close();
    },
  };
}

function hostDevice(session: HostSession): DeviceCalls {
  return {
    deviceCount() {
      session.use();
      return 1;
    },
    describeDevice(ordinal) {
      session.use(ordinal);
      return describe(ordinal);
    },
    memoryInfo(ordinal) {
      session.use(ordinal);
      return { freeBytes: availableBytes(), totalBytes: totalmem() };
    },
    canAccessPeer(ordinal, peer) {
      session.use(ordinal);
      session.use(peer);
      return true;
    },
    enablePeerAccess(ordinal, peer) {
      session.use(ordinal);
      session.use(peer);
    },
  };
}

function describe(ordinal: number): DeviceFacts {
  const version = /^\d+\.\d+/.exec(release())?.[0] ?? release();
  return {
    ordinal,
    id: "host",
    reference: { kind: "host" },
    name: cpus()[0]?.model ?? "host",
    totalBytes: totalmem(),
    granularityBytes: HOST_GRANULARITY_BYTES,
    alignmentBytes: CACHE_LINE_BYTES,
    driverVersion: `Linux ${version}`,
    computeCapability: undefined,
    attributes: {},
  };
}

function refuseKernels(attempt: string): never {
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot ${attempt} on the host device: it runs no code for GPUs`,
  );
}

const withoutKernels: KernelCalls = {
  loadModule: () => refuseKernels("load a module"),
  unloadModule: () => refuseKernels("unload a module"),
  findKernel: () => refuseKernels("find a kernel"),
  launchKernel: () => refuseKernels("launch a kernel"),
};
