/**
 * The driver's library in use: initialised once, primary contexts retained at their first use and made current before every call
 * that works in one. The primary context is the one that all CUDA code of a process shares; its flags stay as they are.
 */
import { checkInteger } from "../../base/bytes.js";
import type { ErrorCode } from "../../base/error-codes.js";
import { type CudaError, CudaIpcError } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult } from "../../ffi/cuda-constants.js";
import { type Libcuda, type LoadLibrary, openLibcuda } from "../../ffi/libcuda.js";
import { cudaError, errorCodeOf } from "./cuda-status.js";
import type { MpsUse } from "./lost-context.js";

interface Device {
  readonly handle: number;
  context: bigint | undefined;
  /** Since a call of this process found a context lost: it may be that of this device. */
  isInDoubt: boolean;
}

const ORDINAL_MAX = 2 ** 31 - 1;

export class CudaSession {
  readonly #cuda: Libcuda;
  readonly #devices = new Map<number, Device>();
  /** Of the device whose context began last. */
  #mps: MpsUse = "unknown";
  #open = true;

  private constructor(cuda: Libcuda) {
    this.#cuda = cuda;
  }

  /** @throws DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DEVICE_NOT_FOUND where there is no GPU at all */
  static open(load?: LoadLibrary): CudaSession {
    const session = new CudaSession(openLibcuda(load));
    const status = session.#cuda.cuInit(0);
    if (status !== cuResult.CUDA_SUCCESS) throw session.failure(status, "cuInit", "start the CUDA driver");
    return session;
  }

  /** @throws CLOSED */
  get cuda(): Libcuda {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot use the CUDA driver: it was closed");
    return this.#cuda;
  }

  failure(status: number, call: string, attempt: string, code?: ErrorCode): CudaError {
    if (errorCodeOf(status) === "DEVICE_LOST") for (const device of this.#devices.values()) device.isInDoubt = true;
    return cudaError(this.#cuda, { status, call, attempt, code, mps: this.#mps });
  }

  /** The driver's own number of a device. @throws DEVICE_NOT_FOUND */
  device(ordinal: number): number {
    return this.#device(ordinal).handle;
  }

  /**
   * Makes the device's context current on this thread and returns the functions to call in it.
   * WHY every time: other CUDA code of the process may have made another context current since.
   * @throws DEVICE_LOST also for calls that the driver would still do
   */
  enter(ordinal: number): Libcuda {
    const cuda = this.cuda;
    const device = this.#device(ordinal);
    const status = cuda.cuCtxSetCurrent(this.#contextOf(device, ordinal));
    if (status !== cuResult.CUDA_SUCCESS) throw this.failure(status, "cuCtxSetCurrent", `use cuda:${ordinal}`);
    if (device.isInDoubt) this.#checkContext(device, ordinal);
    return cuda;
  }

  /**
   * As `enter`, for calls that give something back: a context that is lost is no reason not to.
   * What remains of it goes with the process.
   */
  enterToRelease(ordinal: number): Libcuda {
    const cuda = this.cuda;
    this.checkReleased(cuda.cuCtxSetCurrent(this.context(ordinal)), "cuCtxSetCurrent", `use cuda:${ordinal}`);
    return cuda;
  }

  /**
   * For the status of a call that gives something back.
   * WHY a lost context is no failure: what was to be given back went with it, and whoever computes there is told.
   */
  checkReleased(status: number, call: string, attempt: string): void {
    if (status === cuResult.CUDA_SUCCESS || errorCodeOf(status) === "DEVICE_LOST") return;
    throw this.failure(status, call, attempt);
  }

  /** The device's context, retained from here on. */
  context(ordinal: number): bigint {
    return this.#contextOf(this.#device(ordinal), ordinal);
  }

  /** Releases the contexts. Whatever else in the process retained them keeps them. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
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
    const status = this.cuda.cuDeviceGet(out, ordinal);
    if (status !== cuResult.CUDA_SUCCESS) throw this.failure(status, "cuDeviceGet", `find cuda:${ordinal}`);
    const device = { handle: out[0] as number, context: undefined, isInDoubt: false };
    this.#devices.set(ordinal, device);
    return device;
  }

  #contextOf(device: Device, ordinal: number): bigint {
    device.context ??= this.#retain(device, ordinal);
    return device.context;
  }

  /**
   * Of the device whose context is current.
   * WHY: the driver goes on creating, importing and mapping memory in a context that is lost, and nobody could use it.
   */
  #checkContext(device: Device, ordinal: number): void {
    const status = this.#cuda.cuMemGetInfo(new BigUint64Array(1), new BigUint64Array(1));
    if (status !== cuResult.CUDA_SUCCESS) throw this.failure(status, "cuMemGetInfo", `use cuda:${ordinal}`);
    device.isInDoubt = false;
  }

  #retain(device: Device, ordinal: number): bigint {
    // WHY now: a driver whose context was lost may not answer any more.
    this.#mps = this.#mpsUse(device, ordinal);
    const out = new BigUint64Array(1);
    const status = this.#cuda.cuDevicePrimaryCtxRetain(out, device.handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.failure(status, "cuDevicePrimaryCtxRetain", `start a context on cuda:${ordinal}`);
    }
    return out[0] as bigint;
  }

  #mpsUse({ handle }: Device, ordinal: number): MpsUse {
    const out = new Int32Array(1);
    const status = this.#cuda.cuDeviceGetAttribute(out, cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MPS_ENABLED, handle);
    if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return "unknown";
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.failure(status, "cuDeviceGetAttribute", `ask cuda:${ordinal} whether MPS is in use`);
    }
    return out[0] === 1 ? "in use" : "not in use";
  }

  #release(device: Device, ordinal: number): void {
    const status = this.#cuda.cuDevicePrimaryCtxRelease(device.handle);
    this.checkReleased(status, "cuDevicePrimaryCtxRelease", `end the context on cuda:${ordinal}`);
  }
}
