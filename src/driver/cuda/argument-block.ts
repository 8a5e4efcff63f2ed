/**
 * The arguments of this project's own kernels, in memory that is made once: a launch puts its values there and hands over the address of a
 * table that never changes. cuLaunchKernel copies them within the call.
 *
 *     | values, 8 bytes each | table: the address of each value |
 */
import { ScalarWords } from "../../array/arithmetic.js";
import { CudaIpcError } from "../../base/errors.js";
import { addressOf } from "../../os/host-memory.js";
import type { KernelParameter } from "../kernel-calls.js";

/** Of a kernel of this project, at most. */
const PARAMETERS_MAX = 8;
const VALUE_BYTES = 8;
const HIGH = 2 ** 32;

export class ArgumentBlock {
  // SAFETY: this memory does not move, and is there for as long as this object is.
  readonly words = new ScalarWords(2 * PARAMETERS_MAX);
  /** What cuLaunchKernel takes. */
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

  /** A number from 0, as 64 bits. WHY by halves: a bigint of it would take longer to make than to store. */
  setCount(index: number, count: number): void {
    const { u32 } = this.words;
    u32[2 * index] = count;
    u32[2 * index + 1] = count / HIGH;
  }

  /** Arguments as bytes, from the first on; as many as a kernel of this project has at most. */
  setAll(args: readonly Uint8Array[]): void {
    for (const [index, bytes] of args.entries()) this.words.bytes.set(bytes, VALUE_BYTES * index);
  }

  /** A copy of the value at an index, as a kernel with a parameter of so many bytes gets it. */
  value(index: number, byteLength: number): Uint8Array {
    return this.words.bytes.slice(VALUE_BYTES * index, VALUE_BYTES * index + byteLength);
  }
}

/** Whether a block has room for all parameters of a kernel. @throws KERNEL_ARGUMENTS */
export function checkBlock(attempt: string, parameters: readonly KernelParameter[] | undefined): void {
  const found = parameters ?? [];
  if (found.length <= PARAMETERS_MAX && found.every(({ byteLength }) => byteLength <= VALUE_BYTES)) return;
  const sizes = found.map(({ byteLength }) => byteLength).join(", ");
  const wanted = `at most ${PARAMETERS_MAX} of at most ${VALUE_BYTES}`;
  throw new CudaIpcError("KERNEL_ARGUMENTS", `Cannot ${attempt}: found parameters of ${sizes} bytes, wanted ${wanted}`);
}
