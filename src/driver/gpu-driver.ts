/**
 * The seam between this project and a device: checked calls on opaque handles, each either done or thrown.
 * Two implementations, `cuda` (libcuda) and `host` (memory files and CPU streams), are held to test/conformance.
 * No policy here: no names, no caching, no waiting for anything but the driver itself. Events, pools, legacy memory, kernels and the
 * other parts are in the files beside this one.
 *
 * For every function: a driver, handle or stream that was closed, released or destroyed gives CLOSED, one of another driver TypeError,
 * an ordinal that this process does not see DEVICE_NOT_FOUND, and unmapping or unregistering what is not there RangeError.
 */
import type { DeviceReference } from "../base/device-reference.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { EventCalls } from "./event-calls.js";
import type { KernelCalls } from "./kernel-calls.js";
import type { LegacyCalls } from "./legacy-calls.js";
import type { OperationCalls } from "./operation-calls.js";
import type { PeerCalls } from "./peer-calls.js";
import type { PoolCalls } from "./pool-calls.js";
import type { ReservationCalls } from "./reservation-calls.js";

/** How memory of this driver travels between processes; a field of every descriptor. */
export type Mechanism = "vmm" | "memfd" | "pool" | "legacy";

/**
 * Where memory lies: in the device, or in the memory of the machine next to it (the NUMA node of the device), which the device and
 * the CPU then both use at one address.
 */
export type MemoryPlace = "device" | "host-numa";

/** An address in a device's address space of this process. On the host device it is an ordinary address. */
export type DevicePointer = bigint;

/** An address in this process's own memory. */
export type HostPointer = bigint;

/** Physical memory of a device, held but not necessarily mapped. Ended by `releaseMemory`. */
export interface DriverMemory {
  readonly ordinal: number;
  readonly byteLength: number;
  readonly place: MemoryPlace;
}

/** A queue of work that is done in order. Ended by `destroyStream`. */
export interface DriverStream {
  readonly ordinal: number;
}

export interface DeviceFacts {
  readonly ordinal: number;
  /** The name by which this process opens the device: `cuda:0` or `host`. */
  readonly id: string;
  /** What names the device to other processes. */
  readonly reference: DeviceReference;
  /** The model. */
  readonly name: string;
  readonly totalBytes: number;
  /** Sizes of exportable memory are multiples of this. */
  readonly granularityBytes: number;
  /** Arrays that begin at a multiple of this are the fastest to use. */
  readonly alignmentBytes: number;
  /** Driver's version in words, `CUDA 13.0` or `Linux 6.8`. */
  readonly driverVersion: string;
  /** `9.0`; undefined if the device runs no CUDA kernels. */
  readonly computeCapability: string | undefined;
  /** What was asked of the device, by the driver's own attribute names; for `doctor` and people. */
  readonly attributes: Readonly<Record<string, number>>;
}

/** A repeated element of 1, 2 or 4 bytes. */
export interface FillPattern {
  readonly elementBytes: 1 | 2 | 4;
  readonly value: number;
}

/** 64 bits of a word, signed or not. A number is an integer from 0 that numbers are exact for, and costs less than its bigint. */
export type WordValue = number | bigint;

/** One of several signals and waits that go to a stream at once. */
export type WordOperation =
  | { readonly kind: "wait"; readonly pointer: DevicePointer; readonly value: bigint }
  | { readonly kind: "write"; readonly pointer: DevicePointer; readonly value: bigint };

export interface GpuDriver
  extends EventCalls,
    LegacyCalls,
    PoolCalls,
    KernelCalls,
    OperationCalls,
    ReservationCalls,
    PeerCalls {
  /** How memory of `createMemory` travels. */
  readonly mechanism: Mechanism;
  /** Whether the CPU can use the memory of `createMemory` directly: then `cpuAddress` has its address. */
  readonly cpuVisible: boolean;
  /** Whether the descriptors of `exportMemory` are memory files, which the kernel can fill and reopen for reading. */
  readonly memoryFiles: boolean;
  /** Whether this process can lose its context on a device while the process goes on. */
  readonly losesContext: boolean;

  deviceCount(): number;
  /** @throws DEVICE_NOT_FOUND for an ordinal that this process does not see */
  describeDevice(ordinal: number): DeviceFacts;
  memoryInfo(ordinal: number): { readonly freeBytes: number; readonly totalBytes: number };

  /**
   * Physical memory that can be exported. On `host` its content is zero, on `cuda` undefined.
   * @param byteLength a multiple of the granularity
   * @param place "device" by default; on `host` there is no other
   * @throws OUT_OF_MEMORY, UNSUPPORTED where the device has no memory at that place
   */
  createMemory(ordinal: number, byteLength: number, place?: MemoryPlace): DriverMemory;
  /**
   * A descriptor that keeps the memory alive for as long as it is open, in any process. The caller owns it; close-on-exec is set.
   * For memory that was created here. Of imported memory duplicate the descriptor that it came from: not every driver exports it again.
   */
  exportMemory(memory: DriverMemory): OwnedFd;
  /**
   * The memory behind a descriptor from anywhere, this process included. The descriptor stays the caller's.
   * On `host` a file smaller than `byteLength`, or one whose size is not sealed, is refused here; on `cuda` the size is first checked
   * by `mapMemory`, since the driver tells it to nobody.
   * @throws INVALID_DESCRIPTOR, also where the memory is known to lie elsewhere than at `place`
   */
  importMemory(ordinal: number, fd: OwnedFd, byteLength: number, place?: MemoryPlace): DriverMemory;
  /** Gives up the handle; mappings stay valid. Once: a second time is CLOSED. */
  releaseMemory(memory: DriverMemory): void;
  /**
   * Maps the whole memory with access for its device.
   * @throws INVALID_DESCRIPTOR where the memory is not of the size that it claims, OUT_OF_MEMORY, READ_ONLY where `read-write` is
   * asked for and the descriptor is for reading only (host)
   */
  mapMemory(memory: DriverMemory, access: Access): DevicePointer;
  /** Ends a mapping made by `mapMemory`. The caller has seen to it that no stream still uses it. */
  unmapMemory(ordinal: number, pointer: DevicePointer): void;

  /** Ordinary memory that copies to and from the device are fastest with; viewed by the CPU as bytes. Ended by `freeStaging`. */
  allocateStaging(ordinal: number, byteLength: number): StagingMemory;
  freeStaging(staging: StagingMemory): void;

  /**
   * Makes shared host memory (a mapping of a memory file) usable by `waitWord` and `writeWord`.
   * With `read`, memory that is mapped for reading only may be registered, and only waited on.
   * Once for each device; memory that several devices use has the same size and access for all.
   * @returns the address that streams use for it; ended by `unregisterHostMemory` before the memory is unmapped
   * @throws RangeError for a range that overlaps a registered one, UNSUPPORTED where the device cannot register read-only memory
   */
  registerHostMemory(ordinal: number, pointer: HostPointer, byteLength: number, access: Access): DevicePointer;
  unregisterHostMemory(ordinal: number, pointer: HostPointer): void;

  createStream(ordinal: number): DriverStream;
  /** The caller has seen to it that the stream is idle. Otherwise `cuda` goes on with what was enqueued, and `host` gives it up. */
  destroyStream(stream: DriverStream): void;
  /**
   * Whether everything enqueued so far is done. Throws what an earlier operation of this stream failed with.
   * Who awaits a stream asks again and again, which keeps the process alive; a pending wait alone does not.
   */
  isIdle(stream: DriverStream): boolean;

  /**
   * Enqueues a copy, as the next functions do. The host memory stays in place and unchanged until the stream has passed it. It is
   * staging, registered or (on `host`) mapped memory of this driver: `host` refuses any other with RangeError, and `cuda` would wait
   * within the call for the stream's earlier work. Ranges that overlap give an undefined result.
   * @throws READ_ONLY where the target is mapped or registered for reading, RangeError beyond the end of a mapping; nothing is
   * enqueued then
   */
  copyToDevice(stream: DriverStream, to: DevicePointer, from: HostPointer, byteLength: number): void;
  copyToHost(stream: DriverStream, to: HostPointer, from: DevicePointer, byteLength: number): void;
  copyOnDevice(stream: DriverStream, to: DevicePointer, from: DevicePointer, byteLength: number): void;
  /** Enqueues a fill of `count` elements. The address is a multiple of the element. */
  fill(stream: DriverStream, to: DevicePointer, pattern: FillPattern, count: number): void;

  /**
   * Enqueues: later work of this stream starts when the 64-bit word at `pointer` has reached `value`,
   * compared cyclically: `(int64)(word - value) >= 0`. The address is a multiple of 8.
   */
  waitWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void;
  /** Enqueues: the word becomes `value` after all earlier work of this stream, which whoever sees the value then sees too. */
  writeWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void;

  /** Enqueues several waits and writes in their order, with one call of the driver where it takes them all. At most 255. */
  batchWords(stream: DriverStream, operations: readonly WordOperation[]): void;

  /** Device memory as seen by the CPU without a copy: an address if the driver is `cpuVisible` and for `host-numa` memory, else undefined. */
  cpuAddress(pointer: DevicePointer): HostPointer | undefined;

  /** Gives back everything that the driver itself holds (contexts). Handles of the caller are the caller's. */
  close(): void;
}

export interface StagingMemory {
  readonly ordinal: number;
  readonly address: HostPointer;
  readonly byteLength: number;
  /** The memory itself; not to be used after `freeStaging`. */
  readonly bytes: Uint8Array;
}
