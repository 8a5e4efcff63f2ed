/** One mmap with one owner, and views of it. */
import { checkRange } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { type Address, viewMemory } from "../ffi/koffi.js";
import { libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";
import { systemError } from "./system-error.js";

const PROT_NONE = 0;
const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const MAP_PRIVATE = 2;
const MAP_FIXED = 0x10;
const MAP_ANONYMOUS = 0x20;
const MAP_NORESERVE = 0x4000;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/** A multiple of every page size of Linux. */
export const PAGE_BYTES_MAX = 64 * 1024;

export type Access = "read" | "read-write";

/** As `Access`, or `copy`: writable, and the writes stay in this process. */
export type MapAccess = Access | "copy";

let openBytes = 0;

export class Mapping {
  readonly address: Address;
  readonly byteLength: number;
  #open = true;
  #onClose: (() => void) | undefined;

  private constructor(address: Address, byteLength: number) {
    this.address = address;
    this.byteLength = byteLength;
    openBytes += byteLength;
  }

  /**
   * Maps `byteLength` bytes of a shared file. `byteOffset` is a multiple of `PAGE_BYTES_MAX`. You
   * may close the descriptor afterwards.
   */
  static shared(fd: OwnedFd, byteLength: number, access: Access, byteOffset = 0): Mapping {
    return Mapping.#map(byteLength, protectionOf(access), MAP_SHARED, fd.number, byteOffset);
  }

  /**
   * Maps a shared file for writing. A page that is written becomes a copy of this process alone, so
   * the descriptor may be for reading. You may close it afterwards.
   */
  static copyOnWrite(fd: OwnedFd, byteLength: number): Mapping {
    // WHY no reserve: a model may be larger than the free memory, and few of its pages are written.
    const flags = MAP_PRIVATE | MAP_NORESERVE;
    return Mapping.#map(byteLength, PROT_READ | PROT_WRITE, flags, fd.number);
  }

  /** Maps new zeroed memory of this process alone. */
  static anonymous(byteLength: number): Mapping {
    return Mapping.#map(byteLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  }

  /**
   * Reserves addresses without memory. Before `place` fills them, an access ends the process
   * (SIGSEGV).
   */
  static reserved(byteLength: number): Mapping {
    return Mapping.#map(byteLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  }

  static #map(
    byteLength: number,
    protection: number,
    flags: number,
    fd: number,
    byteOffset = 0,
  ): Mapping {
    const address = libc().mmap(null, byteLength, protection, flags, fd, byteOffset);
    if (address === MAP_FAILED) throw systemError(`map ${byteLength} bytes`, "mmap");
    return new Mapping(address, byteLength);
  }

  /**
   * Maps the first `byteLength` bytes of a file over a part of this mapping. Both numbers are
   * multiples of the page size. You may close the descriptor afterwards.
   */
  place(byteOffset: number, fd: OwnedFd, byteLength: number, access: Access): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot map into a mapping: it was closed");
    checkRange("Part of a mapping", byteOffset, byteLength, this.byteLength);
    // SAFETY: MAP_FIXED replaces the old mapping. The range was checked, so it is this object's
    // own.
    const at = this.address + BigInt(byteOffset);
    const address = libc().mmap(
      at,
      byteLength,
      protectionOf(access),
      MAP_SHARED | MAP_FIXED,
      fd.number,
      0,
    );
    if (address === MAP_FAILED) throw systemError(`map ${byteLength} bytes`, "mmap");
  }

  /**
   * A view of at most `limits.viewBytesMax` bytes, without a copy.
   * SAFETY: a view used after `close()` reads unmapped memory and ends the process. Hand views only
   * to code that ends before you close the mapping.
   */
  view(byteOffset: number, byteLength: number): Uint8Array {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot view a mapping: it was closed");
    checkRange("View of a mapping", byteOffset, byteLength, this.byteLength);
    if (byteLength > limits.viewBytesMax) {
      throw new RangeError(
        `View of a mapping: ${byteLength} bytes are over the limit of ${limits.viewBytesMax}`,
      );
    }
    if (byteLength === 0) return new Uint8Array(0);
    return new Uint8Array(viewMemory(this.address + BigInt(byteOffset), byteLength));
  }

  /** Calls the listener once, when the mapping is closed. There is one at most. */
  onClose(listener: () => void): void {
    this.#onClose = listener;
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    openBytes -= this.byteLength;
    this.#onClose?.();
    if (libc().munmap(this.address, this.byteLength) < 0)
      throw systemError("unmap memory", "munmap");
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function protectionOf(access: Access): number {
  return access === "read" ? PROT_READ : PROT_READ | PROT_WRITE;
}

/** Bytes that this project has mapped in this process, for leak checks. */
export function mappedBytes(): number {
  return openBytes;
}
