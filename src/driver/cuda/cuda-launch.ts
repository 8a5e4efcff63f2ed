/** What a launch hands to the driver, and the limits that it is held to before. */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { cuDeviceAttribute } from "../../ffi/cuda-constants.js";
import { addressOf } from "../../os/host-memory.js";
import type { Dimensions, KernelParameter, LaunchOptions } from "../kernel-calls.js";
import { readAttribute } from "./cuda-device.js";
import type { CudaSession } from "./cuda-session.js";

const ALIGNMENT = 16;
const AXES = ["x", "y", "z"] as const;

/**
 * The memory by which arguments reach cuLaunchKernel, which copies them within the call:
 *
 *     | values, each at a multiple of 16 | zeros      | table: an address for each parameter |
 *
 * WHY zeros: a kernel whose parameters are not known may have more of them than there are arguments. The driver then finds zeros in
 * their place, instead of whatever lies behind the table.
 */
export class ArgumentScratch {
  // SAFETY: the memory of array buffers does not move, and is there for as long as this object is.
  readonly #values = new Uint8Array(new ArrayBuffer(VALUES_BYTES + ZEROS_BYTES));
  readonly #table = new BigUint64Array(new ArrayBuffer(8 * limits.kernelParametersMax));
  readonly #valuesAddress = addressOf(this.#values);
  readonly #zerosAddress = this.#valuesAddress + BigInt(VALUES_BYTES);
  readonly #tableAddress = addressOf(new Uint8Array(this.#table.buffer));

  /** How many addresses of the table are of values and not of zeros. */
  #used: number = limits.kernelParametersMax;

  /** Copies the arguments and returns the address of the table. */
  fill(args: readonly Uint8Array[]): bigint {
    this.#table.fill(this.#zerosAddress, args.length, Math.max(args.length, this.#used));
    this.#used = args.length;
    let offset = 0;
    args.forEach((bytes, index) => {
      this.#values.set(bytes, offset);
      this.#table[index] = this.#valuesAddress + BigInt(offset);
      offset += Math.ceil(bytes.byteLength / ALIGNMENT) * ALIGNMENT;
    });
    return this.#tableAddress;
  }
}

/** Room for the most parameters and bytes that `checkArguments` lets through, with the gaps between them. */
const VALUES_BYTES =
  Math.ceil((limits.kernelParameterBytesMax + limits.kernelParametersMax * (ALIGNMENT - 1)) / ALIGNMENT) * ALIGNMENT;
const ZEROS_BYTES = Math.ceil(limits.kernelParameterBytesMax / ALIGNMENT) * ALIGNMENT;

/** @throws KERNEL_ARGUMENTS, LIMIT_EXCEEDED */
export function checkArguments(
  attempt: string,
  parameters: readonly KernelParameter[] | undefined,
  args: readonly Uint8Array[],
): void {
  if (parameters !== undefined && args.length !== parameters.length) {
    throw refused(attempt, `found ${args.length} arguments, wanted ${parameters.length}`);
  }
  args.forEach((bytes, index) => {
    if (!(bytes instanceof Uint8Array))
      throw new TypeError(`Cannot ${attempt}: argument ${index} must be a Uint8Array`);
    const wanted = parameters?.[index]?.byteLength;
    if (wanted === undefined || wanted === bytes.byteLength) return;
    throw refused(attempt, `argument ${index} has ${bytes.byteLength} bytes, wanted ${wanted}`);
  });
  const byteLength = args.reduce((sum, bytes) => sum + bytes.byteLength, 0);
  const { kernelParametersMax, kernelParameterBytesMax } = limits;
  if (args.length > kernelParametersMax || byteLength > kernelParameterBytesMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot ${attempt}: found ${args.length} arguments of ${byteLength} bytes, the limits are ${kernelParametersMax} ` +
        `(kernelParametersMax) and ${kernelParameterBytesMax} bytes (kernelParameterBytesMax)`,
    );
  }
}

function refused(attempt: string, found: string): CudaIpcError {
  return new CudaIpcError("KERNEL_ARGUMENTS", `Cannot ${attempt}: ${found}`);
}

/** What a device takes at most. */
export interface LaunchLimits {
  readonly grid: Dimensions;
  readonly block: Dimensions;
  readonly sharedBytes: number;
}

export function readLaunchLimits(session: CudaSession, ordinal: number): LaunchLimits {
  // A driver that does not know the attribute sets no limit here, and checks by itself.
  const read = (name: keyof typeof cuDeviceAttribute): number =>
    readAttribute(session, ordinal, cuDeviceAttribute[name]) ?? 2 ** 31 - 1;
  return {
    grid: [
      read("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X"),
      read("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y"),
      read("CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z"),
    ],
    block: [
      read("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X"),
      read("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y"),
      read("CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z"),
    ],
    sharedBytes: read("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK"),
  };
}

/** @throws RangeError */
export function checkLaunch(
  attempt: string,
  options: LaunchOptions,
  device: LaunchLimits,
  threadsPerBlockMax: number,
): void {
  for (const what of ["grid", "block"] as const) {
    options[what].forEach((size, axis) => {
      checkInteger(`Cannot ${attempt}: ${what} ${AXES[axis]}`, size, 1, device[what][axis]);
    });
  }
  const [x, y, z] = options.block;
  if (x * y * z > threadsPerBlockMax) {
    throw new RangeError(
      `Cannot ${attempt}: found a block of ${x * y * z} threads, wanted at most ${threadsPerBlockMax} for this kernel`,
    );
  }
  checkInteger(`Cannot ${attempt}: sharedBytes`, options.sharedBytes, 0, device.sharedBytes);
}
