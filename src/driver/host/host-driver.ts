/**
 * The seam's implementation without a GPU: one device whose memory is real shared memory of this machine, with the CPU doing the work.
 * It is what runs where there is no GPU, and a device in its own right. Its parts are in the files beside this one.
 */
import { cpus, release, totalmem } from "node:os";
import { CudaIpcError } from "../../base/errors.js";
import type { DeviceFacts, GpuDriver, MemoryPlace } from "../gpu-driver.js";
import { availableBytes } from "./host-capacity.js";
import { createHostElementOperations } from "./host-element-operations.js";
import { createHostEvents } from "./host-events.js";
import { hostKernels } from "./host-kernels.js";
import { createHostLegacy } from "./host-legacy.js";
import { HOST_GRANULARITY_BYTES, HostMemories } from "./host-memory.js";
import { createHostPools } from "./host-pools.js";
import { createHostReservations } from "./host-reservations.js";
import { HostSession } from "./host-session.js";
import { HostStreams } from "./host-streams.js";

const CACHE_LINE_BYTES = 64;

/**
 * The host device, ordinal 0. Its memory is allocated by the first touch of each page.
 * After `close()` every call throws CLOSED, and streams that were not destroyed have stopped.
 */
export function createHostDriver(): GpuDriver {
  const session = new HostSession();
  const memories = new HostMemories();
  const streams = new HostStreams(session, memories);
  const parts = { session, memories, streams };
  return {
    mechanism: "memfd",
    cpuVisible: true,
    memoryFiles: true,
    losesContext: false,

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

    ...memoryCalls(parts),
    ...streamCalls(parts),
    ...createHostEvents(parts),
    ...createHostLegacy(parts),
    ...createHostPools(parts),
    ...createHostReservations(parts),
    ...createHostElementOperations(parts),
    ...hostKernels,

    canAccessPeer(ordinal, peer) {
      session.use(ordinal);
      session.use(peer);
      return true;
    },
    enablePeerAccess(ordinal, peer) {
      session.use(ordinal);
      session.use(peer);
    },
    copyBetweenDevices: (stream, to, from, byteLength) => {
      session.use(to.ordinal);
      session.use(from.ordinal);
      streams.copy(stream, to.pointer, from.pointer, byteLength);
    },

    cpuAddress(pointer) {
      session.use();
      memories.check(pointer, 1, "read");
      return pointer;
    },
    close() {
      session.close();
      streams.close();
    },
  };
}

/** What the parts of the driver share. */
export interface HostParts {
  readonly session: HostSession;
  readonly memories: HostMemories;
  readonly streams: HostStreams;
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

function checkPlace(place: MemoryPlace | undefined): void {
  if (place === undefined || place === "device") return;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot use ${place} memory on the host device: all its memory is the machine's`,
  );
}

type MemoryCalls = Pick<
  GpuDriver,
  | "createMemory"
  | "exportMemory"
  | "importMemory"
  | "releaseMemory"
  | "mapMemory"
  | "unmapMemory"
  | "allocateStaging"
  | "freeStaging"
  | "registerHostMemory"
  | "unregisterHostMemory"
>;

function memoryCalls({ session, memories }: HostParts): MemoryCalls {
  return {
    createMemory(ordinal, byteLength, place) {
      session.use(ordinal);
      checkPlace(place);
      return memories.create(byteLength);
    },
    exportMemory(memory) {
      session.use();
      return memories.export(memory);
    },
    importMemory(ordinal, fd, byteLength, place) {
      session.use(ordinal);
      checkPlace(place);
      return memories.import(fd, byteLength);
    },
    releaseMemory(memory) {
      session.use();
      memories.release(memory);
    },
    mapMemory(memory, access) {
      session.use();
      return memories.map(memory, access);
    },
    unmapMemory(ordinal, pointer) {
      session.use(ordinal);
      memories.unmap(pointer);
    },

    allocateStaging(ordinal, byteLength) {
      session.use(ordinal);
      return memories.allocateStaging(byteLength);
    },
    freeStaging(staging) {
      session.use();
      memories.freeStaging(staging);
    },
    registerHostMemory(ordinal, pointer, byteLength, access) {
      session.use(ordinal);
      return memories.register(pointer, byteLength, access);
    },
    unregisterHostMemory(ordinal, pointer) {
      session.use(ordinal);
      memories.unregister(pointer);
    },
  };
}

type StreamCalls = Pick<
  GpuDriver,
  | "createStream"
  | "destroyStream"
  | "isIdle"
  | "copyToDevice"
  | "copyToHost"
  | "copyOnDevice"
  | "fill"
  | "waitWord"
  | "writeWord"
  | "batchWords"
>;

function streamCalls({ streams }: HostParts): StreamCalls {
  return {
    createStream: (ordinal) => streams.create(ordinal),
    destroyStream: (stream) => streams.destroy(stream),
    isIdle: (stream) => streams.isIdle(stream),
    copyToDevice: (stream, to, from, byteLength) => streams.copy(stream, to, from, byteLength),
    copyToHost: (stream, to, from, byteLength) => streams.copy(stream, to, from, byteLength),
    copyOnDevice: (stream, to, from, byteLength) => streams.copy(stream, to, from, byteLength),
    fill: (stream, to, pattern, count) => streams.fill(stream, to, pattern, count),
    waitWord: (stream, pointer, value) => streams.waitWord(stream, pointer, value),
    writeWord: (stream, pointer, value) => streams.writeWord(stream, pointer, value),
    batchWords: (stream, operations) => streams.batchWords(stream, operations),
  };
}
