/** The seam's implementation on libcuda: binds devices, memory, host memory and streams, which are in the files beside this one. */
import { releaseAll } from "../../base/scope.js";
import type { LoadLibrary } from "../../ffi/libcuda.js";
import type { GpuDriver } from "../gpu-driver.js";
import { describeDevice, deviceCount, memoryInfo } from "./cuda-device.js";
import { createCudaElementOperations } from "./cuda-element-operations.js";
import { createCudaEvents } from "./cuda-events.js";
import { CudaHostMemory } from "./cuda-host-memory.js";
import { createCudaLegacy } from "./cuda-legacy.js";
import { CudaMappings } from "./cuda-mapping.js";
import { CudaMemories } from "./cuda-memory.js";
import { CudaModules, kernelCalls } from "./cuda-modules.js";
import { createCudaPeers } from "./cuda-peers.js";
import { createCudaPools } from "./cuda-pools.js";
import { createCudaReservations } from "./cuda-reservations.js";
import { CudaSession } from "./cuda-session.js";
import { CudaStreams } from "./cuda-stream.js";

export interface CudaDriverOptions {
  /** Opens a shared library by name; a test puts its own in the place of libcuda. */
  readonly load?: LoadLibrary;
}

/**
 * Opens libcuda and starts it (cuInit). A context on a device begins with the first call that needs one.
 * After `close()` every call throws CLOSED.
 * @throws DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND where there is no GPU
 */
export function createCudaDriver(options: CudaDriverOptions = {}): GpuDriver {
  const session = CudaSession.open(options.load);
  const memories = new CudaMemories(session);
  const mappings = new CudaMappings(session, memories);
  const hostMemory = new CudaHostMemory(session);
  const streams = new CudaStreams(session, mappings, hostMemory);
  const parts = { session, memories, mappings, hostMemory, streams };
  const modules = new CudaModules(parts);
  const operations = createCudaElementOperations(parts, modules);
  return {
    mechanism: "vmm",
    cpuVisible: false,
    memoryFiles: false,
    losesContext: true,

    deviceCount: () => deviceCount(session),
    describeDevice: (ordinal) => describeDevice(session, ordinal),
    memoryInfo: (ordinal) => memoryInfo(session, ordinal),

    createMemory: (ordinal, byteLength, place) => memories.create(ordinal, byteLength, place),
    exportMemory: (memory) => memories.export(memory),
    importMemory: (ordinal, fd, byteLength, place) => memories.import(ordinal, fd, byteLength, place),
    releaseMemory: (memory) => memories.release(memory),
    mapMemory: (memory, access) => mappings.map(memory, access),
    unmapMemory: (ordinal, pointer) => mappings.unmap(ordinal, pointer),

    allocateStaging: (ordinal, byteLength) => hostMemory.allocateStaging(ordinal, byteLength),
    freeStaging: (staging) => hostMemory.freeStaging(staging),
    registerHostMemory: (ordinal, pointer, byteLength, access) =>
      hostMemory.register(ordinal, pointer, byteLength, access),
    unregisterHostMemory: (ordinal, pointer) => hostMemory.unregister(ordinal, pointer),

    createStream: (ordinal) => streams.create(ordinal),
    destroyStream: (stream) => streams.destroy(stream),
    isIdle: (stream) => streams.isIdle(stream),
    copyToDevice: (stream, to, from, byteLength) => streams.copyToDevice(stream, to, from, byteLength),
    copyToHost: (stream, to, from, byteLength) => streams.copyToHost(stream, to, from, byteLength),
    copyOnDevice: (stream, to, from, byteLength) => streams.copyOnDevice(stream, to, from, byteLength),
    fill: (stream, to, pattern, count) => streams.fill(stream, to, pattern, count),
    waitWord: (stream, pointer, value) => streams.waitWord(stream, pointer, value),
    writeWord: (stream, pointer, value) => streams.writeWord(stream, pointer, value),

    batchWords: (stream, operations) => streams.batchWords(stream, operations),

    ...createCudaEvents(parts),
    ...createCudaLegacy(parts),
    ...createCudaPools(parts),
    ...createCudaReservations(parts),
    ...createCudaPeers(parts),
    ...kernelCalls(modules),
    enqueueOperation: (stream, operation) => operations.enqueueOperation(stream, operation),
    enqueueReduction: (stream, reduction) => operations.enqueueReduction(stream, reduction),
    prepareOperations: (ordinal) => operations.prepareOperations(ordinal),

    cpuAddress: (pointer) => mappings.cpuAddress(pointer),
    close: () => releaseAll([() => operations.close(), () => session.close()]),
  };
}

/** What the parts of the driver share. */
export interface CudaParts {
  readonly session: CudaSession;
  readonly memories: CudaMemories;
  readonly mappings: CudaMappings;
  readonly hostMemory: CudaHostMemory;
  readonly streams: CudaStreams;
}
