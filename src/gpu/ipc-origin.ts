/** What is checked of the origin of a handle, before a driver sees it. */
import type { DeviceReference } from "../base/device-reference.js";
import { CudaIpcError } from "../base/errors.js";
import { isOwnIdentity, type ProcessIdentity } from "../os/process-identity.js";
import type { Device } from "./device.js";

/** WHY not the UUID: what is on one GPU can be imported onto another. */
export function checkDeviceKind(device: Device, origin: DeviceReference, what: string): void {
  if (device.isSameKindAs(origin)) return;
  const found = `it is of a ${origin.kind} device, wanted one for ${device.name}`;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import ${what}: ${found}`);
}

/** @throws OWN_HANDLE */
export function refuseOwnProcess(identity: ProcessIdentity, what: string): void {
  if (!isOwnIdentity(identity)) return;
  const found = `it was exported by this process (${identity.pid}), which has it`;
  throw new CudaIpcError("OWN_HANDLE", `Cannot import ${what}: ${found}`);
}
