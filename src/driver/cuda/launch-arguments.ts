/**
 * How kernel arguments reach cuLaunchKernel, which copies them within the call: as a table with the
 * address of each value. Kernels of a caller use `ArgumentScratch`, kernels of this project
 * `ArgumentBlock`.
 */
import { ScalarWords } from "../../array/arithmetic.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { addressOf } from "../../os/host-memory.js";
import type { KernelParameter } from "../kernel-calls.js";

const ALIGNMENT = 16;

/** Room for the most parameters and bytes that `checkArguments` accepts, with their padding. */
const VALUES_BYTES =
  Math.ceil(
    (limits.kernelParameterBytesMax + limits.kernelParametersMax * (ALIGNMENT - 1)) / ALIGNMENT,
  ) * ALIGNMENT;
const ZEROS_BYTES = Math.ceil(limits.kernelParameterBytesMax / ALIGNMENT) * ALIGNMENT;

/**
 * The arguments of a caller's kernel:
 *
 *     | values, each at a multiple of 16 | zeros      | table: an address for each parameter |
 *
 * WHY zeros: a kernel of unknown parameters may have more of them than there are arguments. The
 * driver then reads zeros for them, and not what lies behind the table.
 */
export class ArgumentScratch {
  // SAFETY: the memory of an ArrayBuffer does not move, and lives as long as this object.
  readonly #values = new Uint8Array(new ArrayBuffer(VALUES_BYTES + ZEROS_BYTES));
  readonly #table = new BigUint64Array(new ArrayBuffer(8 * limits.kernelParametersMax));
  readonly #valuesAddress = addressOf(this.#values);
  readonly #zerosAddress = this.#valuesAddress + BigInt(VALUES_BYTES);
  readonly #tableAddress = addressOf(new Uint8Array(this.#table.buffer));

  /** How many addresses of the table point to values, the others to zeros. */
  #used: number = limits.kernelParametersMax;
  /** For each address of the table its offset among the values; -1 for zeros. */
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
      // Most launches of a process have arguments of the same sizes, and making an address is slow.
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
    // WHY one by one: for the few bytes of most arguments this is faster than `set`.
    if (byteLength <= ALIGNMENT) {
      for (let i = 0; i < byteLength; i += 1) this.#values[offset + i] = bytes[i] as number;
    } else this.#values.set(bytes, offset);
  }
}

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
      `Cannot ${attempt}: found ${args.length} arguments of ${byteLength} bytes, the limits are ` +
        `${kernelParametersMax} (kernelParametersMax) and ` +
        `${kernelParameterBytesMax} bytes (kernelParameterBytesMax)`,
    );
  }
}

function refused(attempt: string, found: string): CudaIpcError {
  return new CudaIpcError("KERNEL_ARGUMENTS", `Cannot ${attempt}: ${found}`);
}

/** The most parameters of a kernel of this project. */
const PARAMETERS_MAX = 8;
const VALUE_BYTES = 8;
const HIGH = 2 ** 32;

/**
 * The arguments of a kernel of this project. A launch stores its values here; the table never
 * changes:
 *
 *     | values, 8 bytes each | table: the address of each value |
 */
export class ArgumentBlock {
  // SAFETY: this memory does not move, and lives as long as this object.
  readonly words = new ScalarWords(2 * PARAMETERS_MAX);
  /** The address of the table, for cuLaunchKernel. */
  readonly table: bigint;

  constructor() {
    const values = addressOf(this.words.bytes);
    for (let index = 0; index < PARAMETERS_MAX; index += 1) {
      this.words.u64[PARAMETERS_MAX + index] = values + BigInt(VALUE_BYTES * index);
    }
    this.table = values + BigInt(VALUE_BYTES * PARAMETERS_MAX);
  }

  setAddress(index: number, address: bigint): void {
    this.words.u64[index] = address;
  }

  /** Stores a non-negative number as 64 bits. By halves, because making a bigint is slower. */
  setCount(index: number, count: number): void {
    const { u32 } = this.words;
    u32[2 * index] = count;
    u32[2 * index + 1] = count / HIGH;
  }

  /** Stores all arguments, given as bytes; at most as many as a kernel of this project has. */
  setAll(args: readonly Uint8Array[]): void {
    for (const [index, bytes] of args.entries()) this.words.bytes.set(bytes, VALUE_BYTES * index);
  }

  /** Copies the value at an index, as a kernel with a parameter of this size reads it. */
  value(index: number, byteLength: number): Uint8Array {
    return this.words.bytes.slice(VALUE_BYTES * index, VALUE_BYTES * index + byteLength);
  }
}

/** Checks that a block has room for all parameters of a kernel. @throws KERNEL_ARGUMENTS */
export function checkBlock(
  attempt: string,
  parameters: readonly KernelParameter[] | undefined,
): void {
  const found = parameters ?? [];
  if (found.length <= PARAMETERS_MAX && found.every(({ byteLength }) => byteLength <= VALUE_BYTES))
    return;
  const sizes = found.map(({ byteLength }) => byteLength).join(", ");
  const wanted = `at most ${PARAMETERS_MAX} of at most ${VALUE_BYTES}`;
  throw refused(attempt, `found parameters of ${sizes} bytes, wanted ${wanted}`);
}

/** The bytes of a 32-bit argument. */
export function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

/** The bytes of a count or an address. */
export function u64(value: number | bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}

/** The bytes of a 64-bit float. */
export function f64(value: number): Uint8Array {
  return new Uint8Array(Float64Array.of(value).buffer);
}
