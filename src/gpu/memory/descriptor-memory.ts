/**
 * Memory that is one file descriptor: a VMM allocation of a GPU (`vmm`) or a sealed memory file
 * (`memfd`). The driver says which of the two it makes.
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type {
  DevicePointer,
  DriverMemory,
  Mechanism,
  MemoryPlace,
} from "../../driver/gpu-driver.js";
import type { Access, MapAccess } from "../../os/mapping.js";
import { reopenReadOnly } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";
import { MappedMemory, type MemoryDescriptor } from "./mapped-memory.js";

export class DescriptorMemory extends MappedMemory {
  readonly mechanism: Mechanism;
  readonly imported: boolean;
  /** The driver's handle, which exports need. Undefined for imported memory. */
  readonly #handle: DriverMemory | undefined;

  private constructor(
    device: Device,
    pointer: DevicePointer,
    byteLength: number,
    handle: DriverMemory | undefined,
  ) {
    super(device, pointer, byteLength);
    this.mechanism = device.driver.mechanism;
    this.imported = handle === undefined;
    this.#handle = handle;
  }

  /** @param byteLength a multiple of the device's granularity */
  static allocate(device: Device, byteLength: number, place?: MemoryPlace): DescriptorMemory {
    const { driver, ordinal } = device;
    return acquireIn((scope) => {
      const memory = driver.createMemory(ordinal, byteLength, place);
      scope.own(memory, (it) => driver.releaseMemory(it));
      return DescriptorMemory.#map(device, memory, "read-write", memory);
    });
  }

  /** The file descriptor stays the caller's. @throws INVALID_DESCRIPTOR */
  static open(
    device: Device,
    { allocationByteLength }: Pick<MemoryDescriptor, "allocationByteLength">,
    fd: OwnedFd,
    access: MapAccess,
    place?: MemoryPlace,
  ): DescriptorMemory {
    const { driver, ordinal } = device;
    const memory = driver.importMemory(ordinal, fd, allocationByteLength, place);
    return acquireIn((scope) => {
      try {
        const mapped = DescriptorMemory.#map(device, memory, access, undefined);
        return scope.own(mapped, (it) => it.release());
      } finally {
        // The mapping keeps the memory. An imported handle is of no other use.
        driver.releaseMemory(memory);
      }
    });
  }

  static #map(
    device: Device,
    memory: DriverMemory,
    access: MapAccess,
    handle: DriverMemory | undefined,
  ): DescriptorMemory {
    const { driver, ordinal } = device;
    return acquireIn((scope) => {
      const pointer = driver.mapMemory(memory, access);
      scope.defer(() => driver.unmapMemory(ordinal, pointer));
      return new DescriptorMemory(device, pointer, memory.byteLength, handle);
    });
  }

  describe(): MemoryDescriptor {
    return {
      device: this.device.reference,
      mechanism: this.mechanism as "vmm" | "memfd",
      allocationByteLength: this.byteLength,
    };
  }

  exportFd(label: string, access: Access): OwnedFd {
    if (this.#handle === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot export "${label}" as a file descriptor: it was imported`,
      );
    }
    return limitFd(this.device, this.device.driver.exportMemory(this.#handle), access);
  }

  override exportFile(): OwnedFd | undefined {
    if (this.#handle === undefined || !this.device.driver.memoryFiles) return undefined;
    return this.device.driver.exportMemory(this.#handle);
  }

  protected unmap(): void {
    const { driver, ordinal } = this.device;
    const handle = this.#handle;
    releaseAll([
      () => handle && driver.releaseMemory(handle),
      () => driver.unmapMemory(ordinal, this.pointer),
    ]);
  }
}

/**
 * Takes over a descriptor. If only reading is granted and the kernel can enforce that, the result
 * is a descriptor for reading alone.
 */
export function limitFd(device: Device, fd: OwnedFd, access: Access): OwnedFd {
  if (access === "read-write" || !device.driver.memoryFiles) return fd;
  try {
    return reopenReadOnly(fd);
  } finally {
    fd.close();
  }
}
