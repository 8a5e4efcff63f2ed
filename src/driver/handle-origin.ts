/** Reads a handle without opening it. The bytes of a handle of CUDA promise nothing. */
import type { DeviceReference } from "../base/device-reference.js";
import type { ProcessIdentity } from "../os/process-identity.js";
import { decodeHostHandle } from "./host/host-handle.js";

export interface HandleOrigin {
  readonly device: DeviceReference;
  readonly exporter: ProcessIdentity;
}

/** Returns undefined if only the driver can tell. */
export function originOfHandle(handle: Uint8Array): HandleOrigin | undefined {
  const exporter = decodeHostHandle(handle, "memory");
  return exporter === undefined ? undefined : { device: { kind: "host" }, exporter };
}
