/**
 * From memory to descriptor and back: what is sent to others for a buffer, and a buffer from what they sent.
 */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { isDeviceMemory } from "../os/foreign-fd.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import {
  DESCRIPTOR_VERSION,
  type Descriptor,
  type DescriptorContent,
  descriptorContradiction,
  fdsOf,
} from "../wire/descriptor.js";
import { POOL_DESCRIPTOR_VERSION } from "../wire/pool-descriptor.js";
import type { Device } from "./device.js";
import { DeviceBuffer } from "./device-buffer.js";
import { MemoryPool } from "./memory-pool.js";

export function describeBuffer(buffer: DeviceBuffer, content: DescriptorContent): Descriptor {
  const { device, mechanism, pooledName } = buffer;
  if (mechanism === "legacy") {
    const found = "memory of the legacy mechanism has no file descriptor";
    throw new CudaIpcError("UNSUPPORTED", `Cannot describe "${buffer.label}": ${found}; see IpcArrayHandle`);
  }
  return {
    version: DESCRIPTOR_VERSION,
    device: device.reference,
    mechanism,
    ...(pooledName === undefined ? {} : { pooled: pooledName }),
    byteLength: buffer.byteLength,
    allocationByteLength: buffer.allocationByteLength,
    content,
  };
}

/**
 * Checks a descriptor from elsewhere against itself and the descriptors that came with it.
 * @throws INVALID_DESCRIPTOR
 */
export function checkArrived(name: string, descriptor: Descriptor, fds: readonly OwnedFd[]): void {
  const refuse = (found: string) => new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open "${name}": ${found}`);
  const contradiction = descriptorContradiction(descriptor);
  if (contradiction !== undefined) throw refuse(`the descriptor claims ${contradiction}`);
  const wanted = fdsOf(descriptor);
  if (fds.length !== wanted) throw refuse(`${fds.length} file descriptors came with it, wanted ${wanted}`);
  const [memory] = fds;
  // WHY: a driver that is given a file of FUSE can wait for its server.
  if (memory !== undefined && !isDeviceMemory(memory)) throw refuse("file descriptor 0 is neither memory nor of a GPU");
}

/** Maps what a descriptor describes; the file descriptor stays the caller's. */
export function importBuffer(
  device: Device,
  name: string,
  descriptor: Descriptor,
  memory: OwnedFd,
  access: Access,
): DeviceBuffer {
  const { byteLength, allocationByteLength, pooled } = descriptor;
  if (pooled !== undefined) return importPooled(device, name, descriptor, pooled, memory, access);
  return DeviceBuffer.import(device, memory, { label: name, byteLength, allocationByteLength, access });
}

/** The pool is open here for as long as the buffer is mapped. */
function importPooled(
  device: Device,
  label: string,
  descriptor: Descriptor,
  { pool: id, maxBytes, data }: NonNullable<Descriptor["pooled"]>,
  fd: OwnedFd,
  access: Access,
): DeviceBuffer {
  const { byteLength, allocationByteLength } = descriptor;
  const version = POOL_DESCRIPTOR_VERSION;
  const pool = MemoryPool.import(
    device,
    fd,
    { version, kind: "pool", device: descriptor.device, pool: id, maxBytes },
    { label },
  );
  return acquireIn((scope) => {
    scope.defer(() => pool.close());
    const named = { version, kind: "pooled", pool: id, data, byteLength, allocationByteLength } as const;
    const buffer = pool.import(named, { access, label });
    buffer.onUnmapped(() => pool.close());
    return buffer;
  });
}
