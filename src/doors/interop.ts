/**
 * `cuda-ipc/interop`: memory, streams, events and timelines of a device, and the handles and
 * sockets by which programs without this package share them.
 */
import { checkRuntime } from "../base/check-runtime.js";

export { decodeToFloat32, encodeFromFloat32 } from "../array/small-floats.js";
export type { Placement } from "../client/objects/placement.js";
export type { DeviceFacts, FillPattern, Mechanism } from "../driver/gpu-driver.js";
export type { PoolStatistics } from "../driver/pool-calls.js";
export { GrowingArray, type GrowingArrayOptions } from "../gpu/arrays/growing-array.js";
export { IpcArrayHandle, type OpenHandleOptions } from "../gpu/arrays/ipc-array-handle.js";
export { openIpcHandle, type RawHandleOptions } from "../gpu/arrays/open-ipc-handle.js";
export type { TimelineOptions } from "../gpu/device.js";
export type { AllocateOptions, CloseOptions, ImportOptions } from "../gpu/memory/buffer-options.js";
export { DeviceBuffer } from "../gpu/memory/device-buffer.js";
export {
  type ExportedGrowing,
  GrowingBuffer,
  type GrowingImportOptions,
  type GrowingOptions,
} from "../gpu/memory/growing-buffer.js";
export type { ExportedGrowth } from "../gpu/memory/growing-memory.js";
export { type ExportedPool, MemoryPool } from "../gpu/memory/memory-pool.js";
export type {
  MemoryPoolOptions,
  PoolAllocateOptions,
  PooledImportOptions,
  PoolImportOptions,
} from "../gpu/memory/pool-options.js";
export type { AnyTimeline } from "../gpu/order/any-timeline.js";
export { Event } from "../gpu/order/event.js";
export type { TimelineLocation } from "../gpu/order/shared-words.js";
export type { Stream, TimelineOperation } from "../gpu/order/stream.js";
export type { Access } from "../os/mapping.js";
export { OwnedFd } from "../os/owned-fd.js";
export type { PeerCredentials, SocketType } from "../os/seqpacket.js";
export { type ReceivedFd, type ReceiveFdOptions, receiveFd, sendFd } from "../peer/pass-fd.js";
export { UnixListener } from "../peer/unix-listener.js";
export { UnixSocket, type UnixSocketOptions } from "../peer/unix-socket.js";
export type { GrowingDescriptor, Growth } from "../wire/growing-descriptor.js";
export type {
  ArrayHandleDocument,
  EventDescriptor,
  RawHandleDocument,
} from "../wire/ipc-documents.js";
export type { PoolDescriptor, PooledDescriptor } from "../wire/pool-descriptor.js";

checkRuntime();
