/**
 * Mappings of device memory into the addresses of this process: reserve, map, give access, and all of it back.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 */
import type { ErrorCode } from "../../base/error-codes.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAccessDescs } from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { Access } from "../../os/mapping.js";
import { type AddressRange, AddressTable, formatAddress } from "../address-table.js";
import type { DevicePointer, DriverMemory } from "../gpu-driver.js";
import { type CudaMemories, type CudaMemory, usableMemory } from "./cuda-memory.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

/** How drivers refuse to map another size than the memory has. */
const sizeRefusals: readonly ErrorCode[] = ["CUDA_ERROR", "UNSUPPORTED"];

interface DeviceRange extends AddressRange {
  /** Mapped by `map`; anything else is not for `unmap`. */
  readonly own?: true;
}

export class CudaMappings {
  readonly #session: CudaSession;
  readonly #memories: CudaMemories;
  readonly #mapped = new AddressTable<DeviceRange>("Mapped device memory");
  /** Starts of mappings that the CPU sees too. */
  readonly #seenByCpu = new Set<bigint>();

  constructor(session: CudaSession, memories: CudaMemories) {
    this.#session = session;
    this.#memories = memories;
  }

  /** The mapping that holds this address. */
  holding(pointer: DevicePointer): AddressRange | undefined {
    return this.#mapped.holding(pointer);
  }

  /** Device memory of another mechanism, so that what is enqueued on it is checked too. */
  addRange(range: AddressRange): void {
    this.#mapped.add(range);
  }

  /** What starts at exactly this address, of whatever mechanism. */
  rangeAt(start: DevicePointer): AddressRange | undefined {
    return this.#mapped.at(start);
  }

  removeRange(start: DevicePointer): AddressRange | undefined {
    return this.#mapped.remove(start);
  }

  /** The address for the CPU, of memory that lies in the machine. */
  cpuAddress(pointer: DevicePointer): bigint | undefined {
    const range = this.#mapped.holding(pointer);
    return range !== undefined && this.#seenByCpu.has(range.start) ? pointer : undefined;
  }

  map(memory: DriverMemory, access: Access): DevicePointer {
    const own = usableMemory(memory, "map");
    const { ordinal, byteLength } = own;
    const cuda = this.#session.enter(ordinal);
    return acquireIn((scope) => {
      const start = scope.own(this.reserve(cuda, ordinal, byteLength), (it) => this.unreserve(it, byteLength));
      this.attach(cuda, own, start);
      scope.defer(() => this.detach(start, byteLength));
      this.allow(cuda, own, start, access);
      this.#mapped.add({ start, byteLength, access, own: true });
      if (own.place === "host-numa") this.#seenByCpu.add(start);
      return start;
    });
  }

  unmap(ordinal: number, pointer: DevicePointer): void {
    this.#session.enterToRelease(ordinal);
    const range = this.#mapped.at(pointer);
    if (range?.own === undefined) {
      throw new RangeError(`Cannot unmap ${formatAddress(pointer)}: nothing is mapped there`);
    }
    this.#mapped.remove(pointer);
    this.#seenByCpu.delete(pointer);
    releaseAll([() => this.detach(pointer, range.byteLength), () => this.unreserve(pointer, range.byteLength)]);
  }

  reserve(cuda: Libcuda, ordinal: number, byteLength: number): bigint {
    const out = new BigUint64Array(1);
    const status = cuda.cuMemAddressReserve(out, byteLength, 0, 0n, 0n);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemAddressReserve", `reserve ${byteLength} bytes on cuda:${ordinal}`);
    }
    return out[0] as bigint;
  }

  unreserve(pointer: bigint, byteLength: number): void {
    const status = this.#session.cuda.cuMemAddressFree(pointer, byteLength);
    this.#session.checkReleased(status, "cuMemAddressFree", `give back ${byteLength} bytes of addresses`);
  }

  attach(cuda: Libcuda, memory: CudaMemory, start: bigint): void {
    const { ordinal, byteLength, handle, imported } = memory;
    // SAFETY: a whole mapping from offset 0, the only one that the driver takes. Where a descriptor claims less than the
    // allocation has, only that prefix is mapped; where it claims more, the driver refuses.
    const status = cuda.cuMemMap(start, byteLength, 0, handle, 0n);
    if (status === cuResult.CUDA_SUCCESS) return;
    const attempt = `map ${byteLength} bytes on cuda:${ordinal}`;
    // WHY "not supported" too: that is what driver 580 says to a size beyond the memory.
    if (imported && sizeRefusals.includes(errorCodeOf(status))) {
      const claim = `${attempt}, the size that the descriptor claims`;
      throw this.#session.failure(status, "cuMemMap", claim, "INVALID_DESCRIPTOR");
    }
    throw this.#session.failure(status, "cuMemMap", attempt);
  }

  detach(pointer: bigint, byteLength: number): void {
    const status = this.#session.cuda.cuMemUnmap(pointer, byteLength);
    this.#session.checkReleased(status, "cuMemUnmap", `unmap ${byteLength} bytes at ${formatAddress(pointer)}`);
  }

  allow(cuda: Libcuda, memory: CudaMemory, start: bigint, access: Access): void {
    const { ordinal, byteLength, place } = memory;
    const flags =
      access === "read" ? cuValue.CU_MEM_ACCESS_FLAGS_PROT_READ : cuValue.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const users = [deviceLocation(this.#session.device(ordinal))];
    if (place !== "device") users.push(this.#memories.location(ordinal, place));
    const status = cuda.cuMemSetAccess(start, byteLength, encodeAccessDescs(users, flags), users.length);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemSetAccess", `give cuda:${ordinal} ${access} access`);
    }
  }
}
