/** The kernels of the examples, in CUDA C++, and slow work for a stream. */
import { CudaIpcError, type Device, type DeviceArray } from "cuda-ipc";
import type { Stream } from "cuda-ipc/interop";
import { arg, type KernelArgument, type Module, Program } from "cuda-ipc/kernels";
import { LIMIT } from "./program.ts";

/** The rounds of sine and cosine in one launch of the slow kernel, for each element. */
export const ROUNDS = 1000;

export const SOURCE = `
// fmaf rounds once, whatever the compiler's options, so that other code finds the same bits.
__device__ float content(unsigned i) { return fmaf((float)i, 0.001f, 42.0f); }

extern "C" __global__ void produce(float *x, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = content(i);
}

extern "C" __global__ void count_errors(const float *x, unsigned n, unsigned *errors) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] != content(i)) atomicAdd(errors, 1u);
}

extern "C" __global__ void twice(float *x, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}

// Adds 1, the slow way: the mean of sine squared plus cosine squared, rounded.
extern "C" __global__ void slow(float *x, unsigned n, unsigned rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float angle = (float)(i % 1000u), sum = 0.0f;
  for (unsigned round = 0; round < rounds; round += 1) {
    float s = sinf(angle), c = cosf(angle);
    sum += s * s + c * c;
    angle = s + c + (float)round;  // the next round needs this one
  }
  x[i] += rintf(sum / (float)rounds);
}
`;

/**
 * The value that the kernel `content` gives element i. A double has room for the whole product, so
 * this rounds it as often as the kernel does.
 */
export function content(i: number): number {
  return Math.fround(42 + Math.fround(i) * Math.fround(0.001));
}

/**
 * Compiles the kernels for the device and loads them. The caller closes the module.
 * @throws UNSUPPORTED on the host device; NVRTC_NOT_FOUND
 */
export async function loadKernels(device: Device): Promise<Module> {
  return (await Program.compile(SOURCE, { device, name: "kernels.cu", ...LIMIT })).load(device);
}

/** Enqueues a kernel with a thread for each element. Its first arguments are array and count. */
export function launch(
  module: Module,
  name: string,
  array: DeviceArray,
  stream: Stream,
  ...more: readonly KernelArgument[]
): void {
  const count = array.elementCount;
  const args = [array, arg.u32(count), ...more];
  module.kernel(name).launch({ grid: Math.ceil(count / 256), block: 256, args, stream });
}

/** Work that keeps a stream busy, and adds 1 to each element in each step. */
export interface SlowWork extends Disposable {
  /** How often to call `add`. */
  readonly steps: number;
  /** Enqueues one step. */
  add(array: DeviceArray<"float32">, stream: Stream): Promise<void>;
}

/** The slow kernel on a GPU. Elsewhere, and without NVRTC, many operations of the package. */
export async function slowWork(device: Device): Promise<SlowWork> {
  let module: Module;
  try {
    module = await loadKernels(device);
  } catch (error) {
    const code = error instanceof CudaIpcError ? error.code : undefined;
    if (code !== "UNSUPPORTED" && code !== "NVRTC_NOT_FOUND") throw error;
    return {
      steps: 200,
      add: (array, stream) => array.affine(1, 1, { stream }),
      [Symbol.dispose]() {},
    };
  }
  return {
    steps: 20,
    async add(array, stream) {
      launch(module, "slow", array, stream, arg.u32(ROUNDS));
    },
    [Symbol.dispose]: () => module.close(),
  };
}
