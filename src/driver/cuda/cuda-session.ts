/**
 * The open CUDA driver: libcuda initialised once, its contexts, and the check of every call's
 * status. A device's primary context is retained at its first use, and is current only during a
 * call of the seam. All CUDA code of a process shares the primary context, so its flags stay as
 * they are.
 */
import { checkInteger } from "../../base/bytes.js";
import type { ErrorCode } from "../../base/error-codes.js";
import { type CudaError, CudaIpcError } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult } from "../../ffi/cuda-constants.js";
import { type Libcuda, type LoadLibrary, openLibcuda } from "../../ffi/libcuda.js";
import { cudaError, errorCodeOf, type MpsUse } from "./cuda-status.js";

interface Device {
  readonly handle: number;
  context: bigint | undefined;
  /** A call of this process found a context lost. It may be this device's. */
  isInDoubt: boolean;
}

const ORDINAL_MAX = 2 ** 31 - 1;

/**
 * Whether a call with a handle may succeed once the handle's context is current. The driver has
 * done nothing then. WHY both: which of them it answers depends on whether another context is
 * current.
 */
export function wantsContext(status: number): boolean {
  return (
    status === cuResult.CUDA_ERROR_INVALID_CONTEXT || status === cuResult.CUDA_ERROR_INVALID_HANDLE
  );
}

export class CudaSession {
  readonly #cuda: Libcuda;
  readonly #devices = new Map<number, Device>();
  /** For the device whose context was started last. */
  #mps: MpsUse = "unknown";
  #open = true;
  /** The device whose context this call of the seam has made current. */
  #entered: Device | undefined;
  readonly #popped = new BigUint64Array(1);

  private constructor(cuda: Libcuda) {
    this.#cuda = cuda;
  }

  /** @throws DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND if there is no GPU */
  static open(load?: LoadLibrary): CudaSession {
    const session = new CudaSession(openLibcuda(load));
    session.check(session.#cuda.cuInit(0), "cuInit", "start the CUDA driver");
    return session;
  }

  /** The functions of libcuda. @throws CLOSED */
  get cuda(): Libcuda {
    this.checkOpen();
    return this.#cuda;
  }

  /** @throws CLOSED */
  checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot use the CUDA driver: it was closed");
  }

  /**
   * Throws if a call failed. Calls on a hot path test the status themselves and use `failure`,
   * because the message costs more than the test.
   * @param attempt what was attempted, for the message: `map 4096 bytes on cuda:0`
   * @param blamed replaces the codes that blame nobody, CUDA_ERROR and UNSUPPORTED
   */
  check(status: number, call: string, attempt: string, blamed?: ErrorCode): void {
    if (status === cuResult.CUDA_SUCCESS) return;
    const usual = errorCodeOf(status);
    const blamesNobody = usual === "CUDA_ERROR" || usual === "UNSUPPORTED";
    throw this.failure(status, call, attempt, blamesNobody ? blamed : undefined);
  }

  /** The error for a failed call. @param code replaces the code that the status stands for */
  failure(status: number, call: string, attempt: string, code?: ErrorCode): CudaError {
    if (errorCodeOf(status) === "DEVICE_LOST")
      for (const device of this.#devices.values()) device.isInDoubt = true;
    return cudaError(this.#cuda, { status, call, attempt, code, mps: this.#mps });
  }

  /** The driver's own number of a device. @throws DEVICE_NOT_FOUND */
  device(ordinal: number): number {
    return this.#device(ordinal).handle;
  }

  /**
   * Makes the device's context current on this thread until `leave`, and returns the functions to
   * call in it.
   * @throws DEVICE_LOST, also for calls that the driver would still carry out
   */
  enter(ordinal: number): Libcuda {
    const cuda = this.cuda;
    const device = this.#device(ordinal);
    const status = this.#push(device, ordinal);
    // WHY not `check`: every call comes here, and would make this message.
    if (status !== cuResult.CUDA_SUCCESS)
      throw this.failure(status, "cuCtxPushCurrent", `use cuda:${ordinal}`);
    if (device.isInDoubt) this.#checkContext(device, ordinal);
    return cuda;
  }

  /** Like `enter`, for calls that release something. A lost context is no reason to refuse them. */
  enterToRelease(ordinal: number): Libcuda {
    const cuda = this.cuda;
    const status = this.#push(this.#device(ordinal), ordinal);
    this.checkReleased(status, "cuCtxPushCurrent", `use cuda:${ordinal}`);
    return cuda;
  }

  /**
   * Makes a call that finds its context by a handle, without making the context current, which
   * would take two more calls.
   */
  byHandle(ordinal: number, call: (cuda: Libcuda) => number): number {
    const status = call(this.cuda);
    return wantsContext(status) ? this.within(ordinal, call) : status;
  }

  /** Makes a call with the device's context current, and leaves it. */
  within(ordinal: number, call: (cuda: Libcuda) => number): number {
    try {
      return call(this.enter(ordinal));
    } finally {
      this.leave();
    }
  }

  /**
   * Makes the caller's context current again, or none. Comes after each call of the seam: see
   * `keepingContext`. WHY always: the driver crashes the process if a released context is still
   * current.
   * Other CUDA code on this thread expects its own context.
   */
  leave(): void {
    if (this.#entered === undefined) return;
    this.#entered = undefined;
    // WHY unchecked: it fails only if nothing is current, and the result of the call must not be
    // lost for that.
    this.#cuda.cuCtxPopCurrent(this.#popped);
  }

  /**
   * Checks the status of a call that releases something. WHY a lost context is no failure: the
   * resource went with the context, and the next call that uses the device reports the loss.
   */
  checkReleased(status: number, call: string, attempt: string): void {
    if (status === cuResult.CUDA_SUCCESS || errorCodeOf(status) === "DEVICE_LOST") return;
    throw this.failure(status, call, attempt);
  }

  /** The device's context, which stays retained until `close`. */
  context(ordinal: number): bigint {
    return this.#contextOf(this.#device(ordinal), ordinal);
  }

  /** Releases the contexts. Other code of the process that retained them keeps them. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.leave();
    const retained = [...this.#devices].filter(([, device]) => device.context !== undefined);
    this.#devices.clear();
    releaseAll(
      retained.map(
        ([ordinal, device]) =>
          () =>
            this.#release(device, ordinal),
      ),
    );
  }

  #device(ordinal: number): Device {
    const known = this.#devices.get(ordinal);
    if (known !== undefined) return known;
    checkInteger("ordinal", ordinal, 0, ORDINAL_MAX);
    const out = new Int32Array(1);
    this.check(this.cuda.cuDeviceGet(out, ordinal), "cuDeviceGet", `find cuda:${ordinal}`);
    const device = { handle: out[0] as number, context: undefined, isInDoubt: false };
    this.#devices.set(ordinal, device);
    return device;
  }

  #contextOf(device: Device, ordinal: number): bigint {
    device.context ??= this.#retain(device, ordinal);
    return device.context;
  }

  #push(device: Device, ordinal: number): number {
    if (this.#entered === device) return cuResult.CUDA_SUCCESS;
    this.leave();
    const status = this.#cuda.cuCtxPushCurrent(this.#contextOf(device, ordinal));
    if (status === cuResult.CUDA_SUCCESS) this.#entered = device;
    return status;
  }

  /**
   * Checks the current context, which must be the device's. WHY: the driver still creates, imports
   * and maps memory in a lost context, and nobody could use it.
   */
  #checkContext(device: Device, ordinal: number): void {
    const status = this.#cuda.cuMemGetInfo(new BigUint64Array(1), new BigUint64Array(1));
    this.check(status, "cuMemGetInfo", `use cuda:${ordinal}`);
    device.isInDoubt = false;
  }

  #retain(device: Device, ordinal: number): bigint {
    // WHY now: after the context is lost the driver may not answer.
    this.#mps = this.#mpsUse(device, ordinal);
    const out = new BigUint64Array(1);
    const status = this.#cuda.cuDevicePrimaryCtxRetain(out, device.handle);
    this.check(status, "cuDevicePrimaryCtxRetain", `start a context on cuda:${ordinal}`);
    return out[0] as bigint;
  }

  #mpsUse({ handle }: Device, ordinal: number): MpsUse {
    const out = new Int32Array(1);
    const status = this.#cuda.cuDeviceGetAttribute(
      out,
      cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MPS_ENABLED,
      handle,
    );
    if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return "unknown";
    this.check(status, "cuDeviceGetAttribute", `ask cuda:${ordinal} whether MPS is in use`);
    return out[0] === 1 ? "in use" : "not in use";
  }

  #release(device: Device, ordinal: number): void {
    const status = this.#cuda.cuDevicePrimaryCtxRelease(device.handle);
    this.checkReleased(status, "cuDevicePrimaryCtxRelease", `end the context on cuda:${ordinal}`);
  }
}
