/**
 * 64-bit words in a memory file that CPUs and GPUs of several processes share. They are mapped once
 * for the CPU, and once for each device whose streams wait for or write them. A refcount tracks
 * their users (timelines, streams with pending waits); the last one unmaps them.
 */
import { CudaIpcError } from "../../base/errors.js";
import { RefCounted } from "../../base/ref-counted.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { isLineOffset, LINE_BYTES } from "../../base/timeline-line.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import { type Access, Mapping } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";

/** The position of a timeline in its memory file. Send it with the file descriptor. */
export interface TimelineLocation {
  readonly byteOffset: number;
}

interface Registration {
  readonly pointer: DevicePointer;
  readonly mapping: Mapping;
}

export class SharedWords extends RefCounted {
  readonly byteLength: number;
  readonly access: Access;
  /** The words as this process's CPU sees them. Do not write to them if `access` is "read". */
  readonly cpu: BigInt64Array;
  readonly #fd: OwnedFd;
  readonly #mapping: Mapping;
  readonly #registrations = new Map<Device, Registration>();
  readonly #onEnd: () => void;

  /** Takes ownership of the file descriptor and the mapping. */
  private constructor(fd: OwnedFd, mapping: Mapping, access: Access, onEnd: () => void) {
    super();
    this.#fd = fd;
    this.#mapping = mapping;
    this.#onEnd = onEnd;
    this.byteLength = mapping.byteLength;
    this.access = access;
    this.cpu = new BigInt64Array(mapping.view(0, mapping.byteLength).buffer);
  }

  /** Creates words, all zero, that this process can write. */
  static create(byteLength: number): SharedWords {
    return acquireIn((scope) => {
      const fd = scope.own(createMemoryFile("cuda-ipc words", byteLength), (fd) => fd.close());
      const mapping = scope.own(Mapping.shared(fd, byteLength, "read-write"), (mapping) =>
        mapping.close(),
      );
      return new SharedWords(fd, mapping, "read-write", () => {});
    });
  }

  /**
   * Maps words of another process. The caller still owns the file descriptor.
   * @param onEnd called once when the last user is gone
   * @throws INVALID_DESCRIPTOR if it is not a memory file of sealed size
   */
  static import(fd: OwnedFd, onEnd: () => void = () => {}, access: Access = "read"): SharedWords {
    const { byteLength, sizeSealed, flaw } = inspectMemoryFile(fd);
    if (!sizeSealed || byteLength === 0 || byteLength % 8 !== 0) {
      const found = flaw ?? (sizeSealed ? `it has ${byteLength} bytes` : "its size is not sealed");
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `Cannot import words: not a memory file of whole words: ${found}`,
      );
    }
    return acquireIn((scope) => {
      const own = scope.own(fd.duplicate(), (fd) => fd.close());
      const mapping = scope.own(Mapping.shared(own, byteLength, access), (mapping) =>
        mapping.close(),
      );
      return new SharedWords(own, mapping, access, onEnd);
    });
  }

  /** Duplicates the file descriptor of the words. The caller owns the duplicate. */
  duplicateFd(): OwnedFd {
    return this.#fd.duplicate();
  }

  protected get countedAs(): string {
    return "shared words";
  }

  protected onLastRelease(): void {
    const registered = [...this.#registrations];
    this.#registrations.clear();
    releaseAll([
      ...registered.flatMap(([device, { mapping }]) => [
        () => device.driver.unregisterHostMemory(device.ordinal, mapping.address),
        () => mapping.close(),
        () => device.release(),
      ]),
      () => this.#mapping.close(),
      () => this.#fd.close(),
      this.#onEnd,
    ]);
  }

  /**
   * Returns the address of the first word for streams of a device. The first call for a device
   * registers the words with it.
   *
   * WHY: each device gets its own mapping, because an address can be registered only once in a
   * process, and each `Device` has its own driver.
   */
  pointerOn(device: Device): DevicePointer {
    const known = this.#registrations.get(device);
    if (known !== undefined) return known.pointer;
    this.checkInUse();
    return acquireIn((scope) => {
      device.retain();
      scope.defer(() => device.release());
      const mapping = scope.own(Mapping.shared(this.#fd, this.byteLength, this.access), (mapping) =>
        mapping.close(),
      );
      const { driver, ordinal } = device;
      const pointer = driver.registerHostMemory(
        ordinal,
        mapping.address,
        this.byteLength,
        this.access,
      );
      this.#registrations.set(device, { pointer, mapping });
      return pointer;
    });
  }
}

/** @throws INVALID_DESCRIPTOR if no timeline can be at this offset */
export function checkLocation(
  label: string,
  { byteOffset }: TimelineLocation,
  byteLength: number,
): void {
  if (isLineOffset(byteOffset, byteLength)) return;
  throw new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot import timeline "${label}": it claims byte ${byteOffset} of ${byteLength}, wanted a ` +
      `multiple of ${LINE_BYTES} within`,
  );
}
