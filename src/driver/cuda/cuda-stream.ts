/**
 * Streams and what is enqueued on them. Every call here returns before the work is done.
 *
 * Traps of the driver:
 * - Copies between a device and host memory that is neither staging nor registered run through a buffer of the driver, and wait
 *   for earlier work of the stream within the call. Behind a pending `waitWord` that blocks the event loop.
 * - While a wait is pending, calls that free memory may block until it has ended.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { type BatchMemOp, encodeBatchMemOps } from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { Access } from "../../os/mapping.js";
import type { AddressRange, AddressTable } from "../address-table.js";
import type { DevicePointer, DriverStream, FillPattern, HostPointer, WordOperation, WordValue } from "../gpu-driver.js";
import { checkBatch, checkFill, checkWithin, checkWordAddress } from "../operation-checks.js";
import { CheckedWord, word64 } from "./checked-word.js";
import type { CudaHostMemory } from "./cuda-host-memory.js";
import type { CudaMappings } from "./cuda-mapping.js";
import type { CudaSession } from "./cuda-session.js";

const { CU_STREAM_MEM_OP_WAIT_VALUE_64: WAIT_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64: WRITE_VALUE_64 } = cuValue;
const { CU_STREAM_WAIT_VALUE_GEQ: WAIT_GEQ, CU_STREAM_WRITE_VALUE_DEFAULT: WRITE_FENCED } = cuValue;
/** Of a driver that wants a stream's context to be current where none or another one is. */
const NOT_CURRENT = cuResult.CUDA_ERROR_INVALID_CONTEXT;

export class CudaStream implements DriverStream {
  readonly ordinal: number;
  readonly handle: bigint;
  destroyed = false;
  /** Memory of a pool was freed on it since it was last synchronised. */
  freed = false;
  readonly written: CheckedWord;
  readonly awaited: CheckedWord;

  constructor(ordinal: number, handle: bigint, registered: AddressTable<AddressRange>) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.written = new CheckedWord("read-write", registered);
    this.awaited = new CheckedWord("read", registered);
  }
}

export interface Entered {
  readonly cuda: Libcuda;
  readonly ordinal: number;
  readonly handle: bigint;
}

export class CudaStreams {
  readonly #session: CudaSession;
  readonly #mappings: CudaMappings;
  readonly #hostMemory: CudaHostMemory;
  // WHY kept apart: among all of the library's functions each would be looked up anew for every signal and wait.
  readonly #waitValue: Libcuda["cuStreamWaitValue64"];
  readonly #writeValue: Libcuda["cuStreamWriteValue64"];
  readonly #deviceMemory = (address: DevicePointer): AddressRange | undefined => this.#mappings.holding(address);

  constructor(session: CudaSession, mappings: CudaMappings, hostMemory: CudaHostMemory) {
    this.#session = session;
    this.#mappings = mappings;
    this.#hostMemory = hostMemory;
    this.#waitValue = session.cuda.cuStreamWaitValue64;
    this.#writeValue = session.cuda.cuStreamWriteValue64;
  }

  /** WHY non-blocking: the NULL stream of other code would otherwise wait for ours and ours for it. */
  create(ordinal: number): DriverStream {
    const cuda = this.#session.enter(ordinal);
    const out = new BigUint64Array(1);
    const status = cuda.cuStreamCreate(out, cuValue.CU_STREAM_NON_BLOCKING);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuStreamCreate", `create a stream on cuda:${ordinal}`);
    }
    return new CudaStream(ordinal, out[0] as bigint, this.#hostMemory.visibleOn(ordinal));
  }

  destroy(stream: DriverStream): void {
    const own = this.usable(stream);
    const cuda = this.#session.enterToRelease(own.ordinal);
    own.destroyed = true;
    const status = cuda.cuStreamDestroy(own.handle);
    this.#session.checkReleased(status, "cuStreamDestroy", `destroy a stream of cuda:${own.ordinal}`);
  }

  isIdle(stream: DriverStream): boolean {
    const { cuda, handle, ordinal } = this.enter(stream);
    const status = cuda.cuStreamQuery(handle);
    if (status === cuResult.CUDA_SUCCESS) {
      this.#noticeFrees(cuda, stream as CudaStream);
      return true;
    }
    if (status === cuResult.CUDA_ERROR_NOT_READY) return false;
    throw this.#session.failure(status, "cuStreamQuery", `finish the work of a stream of cuda:${ordinal}`);
  }

  copyToDevice(stream: DriverStream, to: DevicePointer, from: HostPointer, byteLength: number): void {
    const { cuda, handle, ordinal } = this.enter(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    this.check(ordinal, to, byteLength, "read-write");
    // SAFETY: both ranges are the caller's until the stream has passed the copy; the driver checks the device's.
    const status = cuda.cuMemcpyHtoDAsync(to, from, byteLength, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemcpyHtoDAsync", `copy ${byteLength} bytes to cuda:${ordinal}`);
    }
  }

  copyToHost(stream: DriverStream, to: HostPointer, from: DevicePointer, byteLength: number): void {
    const { cuda, handle, ordinal } = this.enter(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    this.check(ordinal, from, byteLength, "read");
    // SAFETY: as in copyToDevice.
    const status = cuda.cuMemcpyDtoHAsync(to, from, byteLength, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemcpyDtoHAsync", `copy ${byteLength} bytes from cuda:${ordinal}`);
    }
  }

  copyOnDevice(stream: DriverStream, to: DevicePointer, from: DevicePointer, byteLength: number): void {
    const { cuda, handle, ordinal } = this.enter(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    this.check(ordinal, to, byteLength, "read-write");
    this.check(ordinal, from, byteLength, "read");
    const status = cuda.cuMemcpyDtoDAsync(to, from, byteLength, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemcpyDtoDAsync", `copy ${byteLength} bytes on cuda:${ordinal}`);
    }
  }

  fill(stream: DriverStream, to: DevicePointer, pattern: FillPattern, count: number): void {
    const { cuda, handle, ordinal } = this.enter(stream);
    checkFill(to, pattern, count);
    if (count === 0) return;
    const { elementBytes, value } = pattern;
    this.check(ordinal, to, count * elementBytes, "read-write");
    const call = memsetCalls[elementBytes];
    const status = cuda[call](to, value, count, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, call, `fill ${count * elementBytes} bytes on cuda:${ordinal}`);
    }
  }

  waitWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void {
    const own = this.usable(stream);
    const address = own.awaited.check(pointer, this.#deviceMemory);
    const wanted = word64(value);
    // SYNC: what the one who wrote the word did before is visible to what this stream does after. Pairs with `writeWord` here
    // and with every Atomics.store to the word.
    let status = this.#waitValue(own.handle, address, wanted, WAIT_GEQ);
    if (status === NOT_CURRENT) status = this.#entered(own).cuStreamWaitValue64(own.handle, address, wanted, WAIT_GEQ);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuStreamWaitValue64", `wait for a word on cuda:${own.ordinal}`);
    }
  }

  writeWord(stream: DriverStream, pointer: DevicePointer, value: WordValue): void {
    const own = this.usable(stream);
    const address = own.written.check(pointer, this.#deviceMemory);
    const written = word64(value);
    // SYNC: the default flag is a fence: all earlier work of this stream is visible to whoever sees the value. Pairs with
    // `waitWord` here and with every Atomics.load of the word.
    let status = this.#writeValue(own.handle, address, written, WRITE_FENCED);
    if (status === NOT_CURRENT) {
      status = this.#entered(own).cuStreamWriteValue64(own.handle, address, written, WRITE_FENCED);
    }
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuStreamWriteValue64", `write a word on cuda:${own.ordinal}`);
    }
  }

  /** Several waits and writes with one call. WHY each is checked as if alone: see `check`. */
  batchWords(stream: DriverStream, operations: readonly WordOperation[]): void {
    const { cuda, handle, ordinal } = this.enter(stream);
    checkBatch(operations);
    if (operations.length === 0) return;
    const encoded = operations.map(({ kind, pointer, value }): BatchMemOp => {
      this.#checkWord(ordinal, pointer, kind === "wait" ? "read" : "read-write");
      // SYNC: as in waitWord and writeWord.
      return kind === "wait"
        ? { operation: WAIT_VALUE_64, address: pointer, value, flags: cuValue.CU_STREAM_WAIT_VALUE_GEQ }
        : { operation: WRITE_VALUE_64, address: pointer, value, flags: cuValue.CU_STREAM_WRITE_VALUE_DEFAULT };
    });
    const status = cuda.cuStreamBatchMemOp(handle, encoded.length, encodeBatchMemOps(encoded), 0);
    if (status !== cuResult.CUDA_SUCCESS) {
      const attempt = `enqueue ${encoded.length} waits and writes of words on cuda:${ordinal}`;
      throw this.#session.failure(status, "cuStreamBatchMemOp", attempt);
    }
  }

  /**
   * As `enter`, for a call that finds its context by the stream, without making it current.
   * WHY the retry: a driver that wants it current all the same (580 does not, with none or another one) says so.
   */
  inContextOf(stream: DriverStream, call: (cuda: Libcuda, handle: bigint) => number): number {
    const own = this.usable(stream);
    const status = call(this.#session.cuda, own.handle);
    return status === NOT_CURRENT ? call(this.#entered(own), own.handle) : status;
  }

  #entered(stream: CudaStream): Libcuda {
    return this.#session.enter(stream.ordinal);
  }

  /** Memory of a pool is freed on this stream. */
  willFree(stream: DriverStream): void {
    this.usable(stream).freed = true;
  }

  /**
   * WHY synchronised, which takes no time on an idle stream: only then does the driver (580) take note that memory of a pool which was
   * freed on it may be given back; being asked whether it is idle is not enough.
   */
  #noticeFrees(cuda: Libcuda, stream: CudaStream): void {
    if (!stream.freed) return;
    stream.freed = false;
    const status = cuda.cuStreamSynchronize(stream.handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(
        status,
        "cuStreamSynchronize",
        `finish the work of a stream of cuda:${stream.ordinal}`,
      );
    }
  }

  /** The driver's own handle of a stream, its context made current. */
  enter(stream: DriverStream): Entered {
    const { ordinal, handle } = this.usable(stream);
    return { cuda: this.#session.enter(ordinal), ordinal, handle };
  }

  /** @throws CLOSED for a stream that was destroyed, TypeError for one of another driver */
  usable(stream: DriverStream): CudaStream {
    if (!(stream instanceof CudaStream)) throw new TypeError("Cannot use a stream of another driver");
    // WHY asked for: a driver that was closed says so first.
    this.#session.cuda;
    if (!stream.destroyed) return stream;
    throw new CudaIpcError("CLOSED", `Cannot use a stream of cuda:${stream.ordinal}: it was destroyed`);
  }

  /**
   * WHY here and not left to the driver: what it accepts and the GPU then refuses ends the whole context.
   * Addresses that were not handed out here are left to it.
   */
  check(ordinal: number, address: DevicePointer, byteLength: number, access: Access): void {
    const range = this.#mappings.holding(address) ?? this.#hostMemory.holding(ordinal, address);
    if (range !== undefined) checkWithin(range, address, byteLength, access);
  }

  /** As `check`; words lie in registered memory most of the time. */
  #checkWord(ordinal: number, address: DevicePointer, access: Access): void {
    checkWordAddress(address);
    const range = this.#hostMemory.holding(ordinal, address) ?? this.#mappings.holding(address);
    if (range !== undefined) checkWithin(range, address, 8, access);
  }
}

const memsetCalls = { 1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async" } as const;
