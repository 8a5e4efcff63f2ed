/** The package's one door. Importing it opens no library and touches no driver. */
import { checkRuntime } from "./base/check-runtime.js";

export type { Scalar } from "./array/arithmetic.js";
export { type DType, dtypes } from "./array/dtype.js";
export type { HostArray, HostValues } from "./array/host-values.js";
export type { ArrayLayout } from "./array/layout.js";
export type { SliceRange } from "./array/layout-views.js";
export { decodeToFloat32, encodeFromFloat32 } from "./array/small-floats.js";
export type { Statistics } from "./array/statistics.js";

export type { WaitOptions } from "./base/deadline.js";
export { type ErrorCode, type ErrorCodeFacts, errorCodes, isErrorCode } from "./base/error-codes.js";
export { CudaError, CudaIpcError, SystemError } from "./base/errors.js";
export type { ChannelObserver, ChannelReaderStatistics, ChannelStatistics } from "./channel/channel-observer.js";
export type { ChannelReader } from "./channel/channel-reader.js";
export type { ChannelWriter } from "./channel/channel-writer.js";
export type { CommitOptions, LoanedSlot, LoanOptions } from "./channel/loaned-slot.js";
export type { JsonValue, Meta } from "./channel/message-meta.js";
export type { ReceivedSlot } from "./channel/received-slot.js";
export type { StreamableMessage, StreamedMessage } from "./channel/web-streams.js";
export { type ConnectOptions, connect } from "./client/connect.js";
export type { Hub } from "./client/hub.js";
export type { Reconnected } from "./client/hub-link.js";
export type {
  CreateBundleOptions,
  CreateOptions,
  FileProgress,
  Inspection,
  Loaded,
  LoadOptions,
  OpenArrayOptions,
  OpenOptions,
  PutOptions,
  Saved,
  SaveOptions,
  SharingOptions,
} from "./client/hub-options.js";
export type { Placement } from "./client/placement.js";
export type { SharedArray } from "./client/shared-array.js";
export type { SharedBundle } from "./client/shared-bundle.js";
export type { CreateChannelOptions, OpenChannelOptions, ResumeChannelOptions } from "./client/shared-channel.js";
export type { DeviceFacts, Mechanism } from "./driver/gpu-driver.js";
export type { KernelParameter } from "./driver/kernel-calls.js";
export type { Comparison } from "./driver/operation-calls.js";
export type { PoolStatistics } from "./driver/pool-calls.js";
export type { FileFormat } from "./files/file-format.js";
export type { OperationOptions } from "./gpu/array-operations.js";
export type { AllocateOptions, CloseOptions, ImportOptions } from "./gpu/buffer-options.js";
export { endTimelineOfDead } from "./gpu/dead-timeline.js";
export { Device, type TimelineOptions } from "./gpu/device.js";
export { type ArrayOptions, DeviceArray } from "./gpu/device-array.js";
export { DeviceBuffer } from "./gpu/device-buffer.js";
export { Event } from "./gpu/event.js";
export { GrowingArray, type GrowingArrayOptions } from "./gpu/growing-array.js";
export {
  type ExportedGrowing,
  type ExportedGrowth,
  GrowingBuffer,
  type GrowingImportOptions,
  type GrowingOptions,
} from "./gpu/growing-memory.js";
export { IpcArrayHandle, type OpenHandleOptions } from "./gpu/ipc-array-handle.js";
export { type Extent, Kernel, type KernelLaunchOptions } from "./gpu/kernel.js";
export { arg, type KernelArgument, TypedArgument } from "./gpu/kernel-arguments.js";
export type { ExportedHandle } from "./gpu/legacy-memory.js";
export {
  type ExportedPool,
  MemoryPool,
  type MemoryPoolOptions,
  type PoolAllocateOptions,
  type PooledImportOptions,
  type PoolImportOptions,
} from "./gpu/memory-pool.js";
export { Module, type ModuleOptions } from "./gpu/module.js";
export { openIpcHandle, type RawHandleOptions } from "./gpu/open-ipc-handle.js";
export { type CompileOptions, Program } from "./gpu/program.js";
export { Stream, type TimelineOperation } from "./gpu/stream.js";
export { type ImportedTimeline, Timeline, type TimelinePlace, type TimelineWaitOptions } from "./gpu/timeline.js";
export type { Access } from "./os/mapping.js";
export { OwnedFd } from "./os/owned-fd.js";
export { FollowedMemory, type FollowOptions } from "./peer/follow-growing.js";
export { Group, type GroupOptions } from "./peer/group.js";
export { type ReadHandleFileOptions, readHandleFile, writeHandleFile } from "./peer/handle-file.js";
export { type Offer, offer } from "./peer/offer.js";
export { type OpenSharedOptions, openShared, openSharedBuffer } from "./peer/open-shared.js";
export { openSharedEvent } from "./peer/open-shared-event.js";
export { type OpenSharedTimelineOptions, openSharedTimeline } from "./peer/open-shared-timeline.js";
export { type ReceivedOffer, receiveOffer } from "./peer/receive-offer.js";
export { type Shareable, type Shared, type ShareOptions, share } from "./peer/share.js";
export type { FillRequest } from "./service/client-call.js";
export type { ReplyOptions, ReplySlot } from "./service/reply-slot.js";
export { type Service, type ServiceHandler, serve } from "./service/service.js";
export { connectService, type RequestOptions, type ServiceClient } from "./service/service-client.js";
export type { ServiceMessage, ServiceRequest, SlotToFill } from "./service/service-message.js";
export type { ConnectServiceOptions, MessageOptions, ServeOptions } from "./service/service-options.js";
export type { GrowingDescriptor, Growth } from "./wire/growing-descriptor.js";
export type { ArrayHandleDocument, EventDescriptor } from "./wire/ipc-documents.js";
export type { Holder, HubStatus, Lifetime, ObjectSummary } from "./wire/messages.js";
export type { PoolDescriptor, PooledDescriptor } from "./wire/pool-descriptor.js";
export type { SharedDocument } from "./wire/shared-document.js";

checkRuntime();
