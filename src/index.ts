/** The package's one door. Importing it opens no library and touches no driver. */

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
export { type ConnectOptions, connect } from "./client/connect.js";
export type { CreateBundleOptions, CreateOptions, Hub, Inspection, OpenOptions } from "./client/hub.js";
export type { Placement } from "./client/placement.js";
export type { SharedArray } from "./client/shared-array.js";
export type { SharedBundle } from "./client/shared-bundle.js";
export type { DeviceFacts, Mechanism } from "./driver/gpu-driver.js";
export type { Comparison } from "./driver/operation-calls.js";
export type { OperationOptions } from "./gpu/array-operations.js";
export { endTimelineOfDead } from "./gpu/dead-timeline.js";
export { Device, type TimelineOptions } from "./gpu/device.js";
export { type ArrayOptions, DeviceArray } from "./gpu/device-array.js";
export { DeviceBuffer, type ImportOptions } from "./gpu/device-buffer.js";
export { Stream, type TimelineOperation } from "./gpu/stream.js";
export { type ImportedTimeline, Timeline, type TimelinePlace, type TimelineWaitOptions } from "./gpu/timeline.js";
export type { Access } from "./os/mapping.js";
export { OwnedFd } from "./os/owned-fd.js";
export type { Holder, HubStatus, Lifetime, ObjectSummary } from "./wire/messages.js";
