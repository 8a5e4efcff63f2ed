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
  /** Where each address of the table leads to among the values; -1 for zeros. */
  readonly #offsets = new Int32Array(limits.kernelParametersMax).fill(-1);

  /** Copies the arguments and returns the address of the table. */
  fill(args: readonly Uint8Array[]): bigint {
    const used = args.length;
    if (used < this.#used) {
      this.#table.fill(this.#zerosAddress, used, this.#used);
      this.#offsets.fill(-1, used, this.#used);
    }
    this.#used = used;
    let offset = 0;
    for (let index = 0; index < used; index += 1) {
      const bytes = args[index] as Uint8Array;
      this.#copy(bytes, offset);
      // WHY asked: most launches of a process have arguments of the same sizes, and an address takes longer to make than to keep.
      if (this.#offsets[index] !== offset) {
        this.#table[index] = this.#valuesAddress + BigInt(offset);
        this.#offsets[index] = offset;
      }
      offset += Math.ceil(bytes.byteLength / ALIGNMENT) * ALIGNMENT;
    }
    return this.#tableAddress;
  }

  #copy(bytes: Uint8Array, offset: number): void {
    const { byteLength } = bytes;
    // WHY one by one: what most arguments are is done before `set` has begun.
    if (byteLength <= ALIGNMENT) {
      for (let i = 0; i < byteLength; i += 1) this.#values[offset + i] = bytes[i] as number;
    } else this.#values.set(bytes, offset);
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
  let byteLength = 0;
  for (let index = 0; index < args.length; index += 1) {
    const bytes = args[index];
    if (!(bytes instanceof Uint8Array))
      throw new TypeError(`Cannot ${attempt}: argument ${index} must be a Uint8Array`);
    const wanted = parameters?.[index]?.byteLength;
    if (wanted !== undefined && wanted !== bytes.byteLength) {
      throw refused(attempt, `argument ${index} has ${bytes.byteLength} bytes, wanted ${wanted}`);
    }
    byteLength += bytes.byteLength;
  }
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
  checkSizes(attempt, "grid", options.grid, device.grid);
  checkSizes(attempt, "block", options.block, device.block);
  const [x, y, z] = options.block;
  if (x * y * z > threadsPerBlockMax) {
    throw new RangeError(
      `Cannot ${attempt}: found a block of ${x * y * z} threads, wanted at most ${threadsPerBlockMax} for this kernel`,
    );
  }
  if (!isWithin(options.sharedBytes, 0, device.sharedBytes)) {
    checkInteger(`Cannot ${attempt}: sharedBytes`, options.sharedBytes, 0, device.sharedBytes);
  }
}

/** WHY asked before: the words of what is refused take longer to make than a launch. */
function checkSizes(attempt: string, what: "grid" | "block", sizes: Dimensions, max: Dimensions): void {
  for (let axis = 0; axis < AXES.length; axis += 1) {
    const [size, most] = [sizes[axis] as number, max[axis] as number];
    if (!isWithin(size, 1, most)) checkInteger(`Cannot ${attempt}: ${what} ${AXES[axis]}`, size, 1, most);
  }
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max;
}
