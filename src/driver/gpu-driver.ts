/**
 * The seam between this project and a device: checked calls on opaque handles. Each call succeeds
 * or throws. There are two implementations, `cuda/` (libcuda) and `host/` (memory files and CPU
 * streams). Both use `common/`, and test/conformance holds both to the same promises. There is no
 * policy here: no names, no caching, and no waiting except inside the driver itself.
 *
 * Rules of every call: a closed driver, and a released or destroyed handle, throw CLOSED. A handle
 * of another driver throws TypeError. An ordinal that this process does not see throws
 * DEVICE_NOT_FOUND. Unmapping or unregistering what is not there throws RangeError.
 */
import type { DeviceReference } from "../base/device-reference.js";
import type { EventCalls } from "./event-calls.js";
import type { KernelCalls } from "./kernel-calls.js";
import type { LegacyCalls } from "./legacy-calls.js";
import type { MemoryCalls } from "./memory-calls.js";
import type { OperationCalls } from "./operation-calls.js";
import type { PoolCalls } from "./pool-calls.js";
import type { StreamCalls } from "./stream-calls.js";

export type {
  DevicePointer,
  DriverMemory,
  MemoryPlace,
  StagingMemory,
} from "./memory-calls.js";
export type { DriverStream, FillPattern, WordOperation, WordValue } from "./stream-calls.js";

/** How memory travels between processes. Descriptors name it, except `legacy`. */
export type Mechanism = "vmm" | "memfd" | "pool" | "legacy";

export interface DeviceFacts {
  readonly ordinal: number;
  /** The name by which this process opens the device: `cuda:0` or `host`. */
  readonly id: string;
  /** Names the device to other processes. */
  readonly reference: DeviceReference;
  /** The model. */
  readonly name: string;
  readonly totalBytes: number;
  /** Sizes of exportable memory are multiples of this. */
  readonly granularityBytes: number;
  /** Arrays that begin at a multiple of this are the fastest to use. */
  readonly alignmentBytes: number;
  /** Driver and version: `CUDA 13.0` or `Linux 6.8`. */
  readonly driverVersion: string;
  /** `9.0`; undefined if the device runs no CUDA kernels. */
  readonly computeCapability: string | undefined;
  /** Attributes by the driver's own names, for `doctor` and for people. */
  readonly attributes: Readonly<Record<string, number>>;
}

export interface DeviceCalls {
  deviceCount(): number;
  /** @throws DEVICE_NOT_FOUND */
  describeDevice(ordinal: number): DeviceFacts;
  memoryInfo(ordinal: number): { readonly freeBytes: number; readonly totalBytes: number };
  /**
   * Whether `ordinal` can use memory of `peer` directly (NVLink, PCIe peer to peer). True for one
   * and the same device.
   */
  canAccessPeer(ordinal: number, peer: number): boolean;
  /**
   * Lets kernels and copies of `ordinal` use legacy memory of `peer`. A second call does nothing.
   * @throws PEER_ACCESS_UNSUPPORTED
   */
  enablePeerAccess(ordinal: number, peer: number): void;
}

export interface GpuDriver
  extends DeviceCalls,
    MemoryCalls,
    StreamCalls,
    EventCalls,
    LegacyCalls,
    PoolCalls,
    KernelCalls,
    OperationCalls {
  /** How memory of `createMemory` travels. */
  readonly mechanism: Mechanism;
  /** Whether the CPU can use memory of `createMemory` directly, at its `cpuAddress`. */
  readonly cpuVisible: boolean;
  /**
   * Whether `exportMemory` gives memory files, which the kernel can fill, reopen read-only and copy
   * on write.
   */
  readonly memoryFiles: boolean;
  /** Whether this process can lose its context on a device and keep running. */
  readonly losesContext: boolean;

  /** Releases what the driver itself holds (contexts). Handles stay the caller's. */
  close(): void;
}
