/** Describes buffers to other processes, and opens buffers from received descriptors. */
import { CudaIpcError } from "../../base/errors.js";
import { isDeviceMemory } from "../../os/foreign-fd.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import {
  DESCRIPTOR_VERSION,
  type Descriptor,
  type DescriptorContent,
  descriptorContradiction,
  fdsOf,
  type ReplicaOf,
} from "../../wire/descriptor.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "./device-buffer.js";
import { openMemory } from "./mechanisms.js";

/**
 * @param replicaOf the original, for a copy of another machine's object
 * @throws UNSUPPORTED for memory that does not travel by file descriptor
 */
export function describeBuffer(
  buffer: DeviceBuffer,
  content: DescriptorContent,
  replicaOf?: ReplicaOf,
): Descriptor {
  const { byteLength } = buffer;
  const { allocationByteLength, ...place } = buffer.describe();
  const origin = replicaOf === undefined ? {} : { replicaOf };
  const sizes = { byteLength, allocationByteLength };
  return { version: DESCRIPTOR_VERSION, ...place, ...sizes, content, ...origin };
}

/**
 * Checks a received descriptor for contradictions, and the file descriptors that came with it.
 * @throws INVALID_DESCRIPTOR
 */
export function checkArrived(name: string, descriptor: Descriptor, fds: readonly OwnedFd[]): void {
  const refuse = (found: string) =>
    new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open "${name}": ${found}`);
  const contradiction = descriptorContradiction(descriptor);
  if (contradiction !== undefined) throw refuse(`the descriptor claims ${contradiction}`);
  const wanted = fdsOf(descriptor);
  if (fds.length !== wanted)
    throw refuse(`${fds.length} file descriptors came with it, wanted ${wanted}`);
  const [memory] = fds;
  // A driver that opens a FUSE file can block on the file's server.
  if (memory !== undefined && !isDeviceMemory(memory))
    throw refuse("file descriptor 0 is neither memory nor of a GPU");
}

/** Opens a buffer on the described memory. The caller still owns the file descriptor. */
export function importBuffer(
  device: Device,
  label: string,
  descriptor: Descriptor,
  fd: OwnedFd,
  access: Access,
): DeviceBuffer {
  const memory = openMemory(device, descriptor, fd, access);
  return DeviceBuffer.over(memory, { label, byteLength: descriptor.byteLength, access });
}
