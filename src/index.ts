/** The package's one door. Importing it opens no library and touches no driver. */

export { type DType, dtypes } from "./array/dtype.js";
export type { HostArray, HostValues } from "./array/host-values.js";
export type { ArrayLayout } from "./array/layout.js";
export type { SliceRange } from "./array/layout-views.js";
export { decodeToFloat32, encodeFromFloat32 } from "./array/small-floats.js";
export type { WaitOptions } from "./base/deadline.js";
export { type ErrorCode, type ErrorCodeFacts, errorCodes } from "./base/error-codes.js";
export { CudaError, CudaIpcError, SystemError } from "./base/errors.js";
export { type ConnectOptions, connect } from "./client/connect.js";
export type { CreateBundleOptions, CreateOptions, Hub, Inspection, OpenOptions } from "./client/hub.js";
export type { SharedArray } from "./client/shared-array.js";
export type { SharedBundle } from "./client/shared-bundle.js";
export type { DeviceFacts, Mechanism } from "./driver/gpu-driver.js";
export { Device } from "./gpu/device.js";
export { type ArrayOptions, DeviceArray } from "./gpu/device-array.js";
export { type AllocateOptions, DeviceBuffer, type ImportOptions } from "./gpu/device-buffer.js";
export { Event } from "./gpu/event.js";
export { IpcArrayHandle, type OpenHandleOptions } from "./gpu/ipc-array-handle.js";
export type { ExportedHandle } from "./gpu/legacy-memory.js";
export { openIpcHandle, type RawHandleOptions } from "./gpu/open-ipc-handle.js";
export { Stream } from "./gpu/stream.js";
export type { Access } from "./os/mapping.js";
export { OwnedFd } from "./os/owned-fd.js";
export type { ArrayHandleDocument, EventDescriptor } from "./wire/ipc-documents.js";
export type { Holder, HubStatus, Lifetime, ObjectSummary } from "./wire/messages.js";
