/**
 * Every mechanism by which the memory of a buffer is allocated or opened. A new mechanism is one
 * subclass of `MappedMemory` and one line here.
 */
import { roundUp } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { checkOneOf } from "../../base/option-checks.js";
import type { MemoryPlace } from "../../driver/gpu-driver.js";
import { isDeviceMemory } from "../../os/foreign-fd.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";
import type { AllocateOptions, BufferOptions, ImportOptions } from "./buffer-options.js";
import { DescriptorMemory } from "./descriptor-memory.js";
import { LegacyMemory } from "./legacy-memory.js";
import type { MappedMemory, MemoryDescriptor } from "./mapped-memory.js";
import { openPoolMemory } from "./pool-core.js";

type Allocate = (device: Device, byteLength: number, place?: MemoryPlace) => MappedMemory;
type Open = (
  device: Device,
  descriptor: MemoryDescriptor,
  fd: OwnedFd,
  access: Access,
  place?: MemoryPlace,
) => MappedMemory;

/** Allocates by mechanism. Memory of pools and growing memory have their own constructors. */
const allocators: Readonly<Record<"descriptor" | "legacy", Allocate>> = {
  descriptor: (device, byteLength, place) => {
    const allocation = roundUp(Math.max(1, byteLength), device.facts.granularityBytes);
    return DescriptorMemory.allocate(device, allocation, place);
  },
  legacy: (device, byteLength, place) => {
    if (place !== undefined) checkOneOf("place (with mechanism legacy)", place, ["device"]);
    return LegacyMemory.allocate(device, byteLength);
  },
};

/** Mechanisms to open by, each with the descriptor and the file descriptor that came with it. */
const openers: Readonly<Record<MemoryDescriptor["mechanism"], Open>> = {
  vmm: DescriptorMemory.open,
  memfd: DescriptorMemory.open,
  pool: openPoolMemory,
  legacy: (device, descriptor, fd, access) =>
    device.legacyImports.openNamed(device, descriptor, fd, access),
};

/** @throws OUT_OF_MEMORY */
export function allocateMemory(
  device: Device,
  byteLength: number,
  { mechanism, place }: AllocateOptions,
): MappedMemory {
  if (mechanism !== undefined) checkOneOf("mechanism", mechanism, ["legacy"]);
  return allocators[mechanism ?? "descriptor"](device, byteLength, place);
}

/**
 * Maps memory that another process described. The file descriptor stays the caller's.
 * @throws INVALID_DESCRIPTOR if the memory is not what is claimed
 */
export function openMemory(
  device: Device,
  descriptor: MemoryDescriptor,
  fd: OwnedFd,
  access: Access,
  place?: MemoryPlace,
): MappedMemory {
  checkOneOf("access", access, ["read", "read-write"]);
  return openers[descriptor.mechanism](device, descriptor, fd, access, place);
}

/**
 * Maps memory of the driver's own mechanism that came without a description. The file descriptor
 * stays the caller's.
 * @throws INVALID_DESCRIPTOR if the memory is not what is claimed
 */
export function importMemory(
  device: Device,
  fd: OwnedFd,
  options: ImportOptions & BufferOptions,
): MappedMemory {
  const { label, byteLength, allocationByteLength = byteLength, access, place } = options;
  // A driver that opens a FUSE file can block on the file's server.
  if (!isDeviceMemory(fd)) {
    const found = "its descriptor is neither memory nor of a GPU";
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import "${label}": ${found}`);
  }
  const mechanism = device.driver.mechanism as MemoryDescriptor["mechanism"];
  const descriptor = { device: device.reference, mechanism, allocationByteLength };
  return openMemory(device, descriptor, fd, access, place);
}
