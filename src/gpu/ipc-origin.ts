/** What is checked of the origin of a handle, before a driver sees it. */
import { CudaIpcError } from "../base/errors.js";
import { isOwnIdentity, type ProcessIdentity } from "../os/process-identity.js";
import type { ArrayHandleDocument } from "../wire/ipc-documents.js";
import type { Device } from "./device.js";

type WireDevice = ArrayHandleDocument["device"];

/** A device as it is named in everything that travels. */
export function wireDevice(device: Device): WireDevice {
  return device.driver.kind === "host" ? { kind: "host" } : { kind: "cuda", uuid: device.uuid };
}

/** WHY not the UUID: what is on one GPU can be imported onto another. */
export function checkDeviceKind(device: Device, origin: WireDevice, what: string): void {
  if (device.driver.kind === origin.kind) return;
  const found = `it is of a ${origin.kind} device, wanted one for ${device.name}`;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import ${what}: ${found}`);
}

/** @throws OWN_HANDLE */
export function refuseOwnProcess(identity: ProcessIdentity, what: string): void {
  if (!isOwnIdentity(identity)) return;
  const found = `it was exported by this process (${identity.pid}), which has it`;
  throw new CudaIpcError("OWN_HANDLE", `Cannot import ${what}: ${found}`);
}
