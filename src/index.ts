/**
 * `cuda-ipc`: connecting to a hub, arrays, bundles, channels, timelines, files and errors.
 * Importing it opens no library and touches no driver.
 */
import { checkRuntime } from "./base/check-runtime.js";

export { type DType, dtypes } from "./array/dtype.js";
export type { HostArray, HostValues } from "./array/host-values.js";
export type { ArrayLayout } from "./array/layout.js";
export type { SliceRange } from "./array/layout-views.js";
export type { WaitOptions } from "./base/deadline.js";
export {
  type ErrorCode,
  type ErrorCodeFacts,
  errorCodes,
  isErrorCode,
} from "./base/error-codes.js";
export { CudaError, CudaIpcError, SystemError } from "./base/errors.js";
export type {
  ChannelObserver,
  ChannelReaderStatistics,
  ChannelStatistics,
} from "./channel/channel-observer.js";
export type { ChannelReader } from "./channel/channel-reader.js";
export type { ChannelWriter } from "./channel/channel-writer.js";
export type { CommitOptions, LoanedSlot, LoanOptions } from "./channel/loaned-slot.js";
export type { Meta } from "./channel/message-meta.js";
export type { ReceivedSlot, ReleaseOptions } from "./channel/received-slot.js";
export type { StreamableMessage, StreamedMessage } from "./channel/web-streams.js";
export { type ConnectOptions, connect } from "./client/connect.js";
export type { Reconnected } from "./client/connection/hub-link.js";
export type { Hub } from "./client/hub.js";
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
  RemoveOptions,
  Saved,
  SaveOptions,
  SharingOptions,
} from "./client/hub-options.js";
export type { SharedArray } from "./client/objects/shared-array.js";
export type { SharedBundle } from "./client/objects/shared-bundle.js";
export type {
  CreateChannelOptions,
  OpenChannelOptions,
  ResumeChannelOptions,
} from "./client/objects/shared-channel.js";
export type {
  CreateTimelineOptions,
  OpenTimelineOptions,
} from "./client/objects/shared-timeline.js";
export type { FileFormat } from "./files/file-format.js";
export { type ArrayOptions, DeviceArray } from "./gpu/arrays/device-array.js";
export { Device } from "./gpu/device.js";
export type { TimelineWaitOptions } from "./gpu/order/any-timeline.js";
export type { ImportedTimeline, Timeline } from "./gpu/order/timeline.js";
export type { Holder, HubStatus, ObjectSummary } from "./wire/messages.js";

checkRuntime();
