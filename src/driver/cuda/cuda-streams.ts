/**
 * The streams of a CUDA driver. What is enqueued on them is in cuda-stream-calls.ts.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
 *
 * Trap: while a wait is pending, calls that free memory may block until it has ended.
 */
import { CudaIpcError } from "../../base/errors.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { AddressRange, AddressTable } from "../common/address-table.js";
import type { DriverStream } from "../stream-calls.js";
import { CheckedWord } from "./checked-word.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import type { CudaSession } from "./cuda-session.js";

export class CudaStream implements DriverStream {
  readonly ordinal: number;
  readonly handle: bigint;
  destroyed = false;
  /** Memory of a pool was freed on this stream since it was last synchronised. */
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

/** A stream whose context was made current. */
export interface Entered {
  readonly cuda: Libcuda;
  readonly ordinal: number;
  /** The driver's own handle of the stream. */
  readonly handle: bigint;
}

export class CudaStreams {
  readonly #session: CudaSession;
  readonly #addresses: CudaAddresses;

  constructor(session: CudaSession, addresses: CudaAddresses) {
    this.#session = session;
    this.#addresses = addresses;
  }

  /**
   * WHY non-blocking: otherwise the NULL stream of other code and our streams wait for each other.
   */
  create(ordinal: number): DriverStream {
    const cuda = this.#session.enter(ordinal);
    const out = new BigUint64Array(1);
    const status = cuda.cuStreamCreate(out, cuValue.CU_STREAM_NON_BLOCKING);
    this.#session.check(status, "cuStreamCreate", `create a stream on cuda:${ordinal}`);
    return new CudaStream(ordinal, out[0] as bigint, this.#addresses.registeredOn(ordinal));
  }

  destroy(stream: DriverStream): void {
    const own = this.usable(stream);
    const cuda = this.#session.enterToRelease(own.ordinal);
    own.destroyed = true;
    const status = cuda.cuStreamDestroy(own.handle);
    const attempt = `destroy a stream of cuda:${own.ordinal}`;
    this.#session.checkReleased(status, "cuStreamDestroy", attempt);
  }

  isIdle(stream: DriverStream): boolean {
    const status = this.inContextOf(stream, (cuda, handle) => cuda.cuStreamQuery(handle));
    if (status === cuResult.CUDA_SUCCESS) {
      this.#noticeFrees(stream as CudaStream);
      return true;
    }
    if (status === cuResult.CUDA_ERROR_NOT_READY) return false;
    const attempt = `finish the work of a stream of cuda:${stream.ordinal}`;
    throw this.#session.failure(status, "cuStreamQuery", attempt);
  }

  /** Makes the stream's context current. @throws what `usable` throws, DEVICE_LOST */
  enter(stream: DriverStream): Entered {
    const { ordinal, handle } = this.usable(stream);
    return { cuda: this.#session.enter(ordinal), ordinal, handle };
  }

  /** Makes a call that finds its context by the stream: see `CudaSession.byHandle`. */
  inContextOf(stream: DriverStream, call: (cuda: Libcuda, handle: bigint) => number): number {
    const own = this.usable(stream);
    return this.#session.byHandle(own.ordinal, (cuda) => call(cuda, own.handle));
  }

  /** Notes that memory of a pool is being freed on this stream. */
  willFree(stream: DriverStream): void {
    this.usable(stream).freed = true;
  }

  /** @throws CLOSED for a stream that was destroyed, TypeError for one of another driver */
  usable(stream: DriverStream): CudaStream {
    if (!(stream instanceof CudaStream))
      throw new TypeError("Cannot use a stream of another driver");
    // A closed driver reports that first.
    this.#session.checkOpen();
    if (!stream.destroyed) return stream;
    throw new CudaIpcError(
      "CLOSED",
      `Cannot use a stream of cuda:${stream.ordinal}: it was destroyed`,
    );
  }

  /**
   * WHY synchronise, which takes no time on an idle stream: only then does driver 580 notice that
   * pool memory freed on the stream may go back. A query is not enough.
   */
  #noticeFrees(stream: CudaStream): void {
    if (!stream.freed) return;
    stream.freed = false;
    const status = this.inContextOf(stream, (cuda, handle) => cuda.cuStreamSynchronize(handle));
    const attempt = `finish the work of a stream of cuda:${stream.ordinal}`;
    this.#session.check(status, "cuStreamSynchronize", attempt);
  }
}
