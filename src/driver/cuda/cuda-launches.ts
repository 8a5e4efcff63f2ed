/**
 * Kernel launches, and the limits that a launch is checked against.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { cuDeviceAttribute, cuResult } from "../../ffi/cuda-constants.js";
import type { Dimensions, DriverKernel, KernelCalls, LaunchOptions } from "../kernel-calls.js";
import type { DriverStream } from "../stream-calls.js";
import { readAttribute } from "./cuda-device.js";
import { CudaKernel } from "./cuda-modules.js";
import { type CudaSession, wantsContext } from "./cuda-session.js";
import type { CudaStream, CudaStreams } from "./cuda-streams.js";
import { BLOCK_THREADS } from "./kernels/grid-loop.js";
import {
  type ArgumentBlock,
  ArgumentScratch,
  checkArguments,
  checkBlock,
} from "./launch-arguments.js";

const AXES = ["x", "y", "z"] as const;

/** The largest sizes that a device takes. */
interface LaunchLimits {
  readonly grid: Dimensions;
  readonly block: Dimensions;
  readonly sharedBytes: number;
}

export interface CudaLaunches extends Pick<KernelCalls, "launchKernel"> {
  /**
   * Launches a kernel of this project, with BLOCK_THREADS threads a block. The launch of the same
   * kernel with the same number of blocks is checked once.
   */
  launchOwn(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void;
}

export function cudaLaunches(session: CudaSession, streams: CudaStreams): CudaLaunches {
  // WHY kept apart: see cudaStreamCalls.
  const { cuLaunchKernel } = session.cuda;
  const limitsByDevice = new Map<number, LaunchLimits>();
  /** Made at the first launch, because most drivers launch nothing. */
  let scratch: ArgumentScratch | undefined;

  function limitsOf(ordinal: number): LaunchLimits {
    let known = limitsByDevice.get(ordinal);
    if (known === undefined) {
      known = readLaunchLimits(session, ordinal);
      limitsByDevice.set(ordinal, known);
    }
    return known;
  }

  function call(
    kernel: bigint,
    { grid, block, sharedBytes }: LaunchOptions,
    stream: bigint,
    table: bigint,
  ): number {
    // WHY one by one: a spread would take half as long again.
    return cuLaunchKernel(
      kernel,
      grid[0],
      grid[1],
      grid[2],
      block[0],
      block[1],
      block[2],
      sharedBytes,
      stream,
      table,
      null,
    );
  }

  /** The driver finds the context by kernel and stream. */
  function enqueue(
    stream: CudaStream,
    kernel: CudaKernel,
    options: LaunchOptions,
    table: bigint,
  ): void {
    const { handle, ordinal } = stream;
    let status = call(kernel.handle, options, handle, table);
    if (wantsContext(status))
      status = session.within(ordinal, () => call(kernel.handle, options, handle, table));
    if (status === cuResult.CUDA_SUCCESS) return;
    throw session.failure(status, "cuLaunchKernel", `launch ${kernel.name} on cuda:${ordinal}`);
  }

  function checkOwn(ordinal: number, kernel: CudaKernel, blocks: number): LaunchOptions {
    const attempt = `launch ${kernel.name}`;
    const sizes = { grid: [blocks, 1, 1], block: [BLOCK_THREADS, 1, 1], sharedBytes: 0 } as const;
    checkLaunch(attempt, sizes, limitsOf(ordinal), kernel.threadsPerBlockMax);
    checkBlock(attempt, kernel.parameters);
    return sizes;
  }

  return {
    launchKernel(stream, kernel, options, args) {
      const own = streams.usable(stream);
      const launched = usableOn(own.ordinal, kernel);
      const attempt = `launch ${kernel.name}`;
      checkLaunch(attempt, options, limitsOf(own.ordinal), kernel.threadsPerBlockMax);
      checkArguments(attempt, kernel.parameters, args);
      scratch ??= new ArgumentScratch();
      // SAFETY: for each parameter of the kernel the table has the address of as many readable
      // bytes as the parameter has. Counts and sizes were compared. If they are not known, the rest
      // of the table points to zeros.
      enqueue(own, launched, options, scratch.fill(args));
    },

    launchOwn(stream, kernel, blocks, args) {
      const own = streams.usable(stream);
      const launched = usableOn(own.ordinal, kernel);
      if (launched.ownSizes?.grid[0] !== blocks)
        launched.ownSizes = checkOwn(own.ordinal, launched, blocks);
      // SAFETY: the block has room for more and larger parameters than a kernel of this project
      // has, and each of them has its address.
      enqueue(own, launched, launched.ownSizes, args.table);
    },
  };
}

/** @throws TypeError for a kernel of another driver or device, CLOSED */
function usableOn(ordinal: number, kernel: DriverKernel): CudaKernel {
  if (!(kernel instanceof CudaKernel))
    throw new TypeError("Cannot launch a kernel of another driver");
  const attempt = `launch ${kernel.name}`;
  if (kernel.module.unloaded)
    throw new CudaIpcError("CLOSED", `Cannot ${attempt}: its module was unloaded`);
  if (kernel.module.ordinal === ordinal) return kernel;
  throw new TypeError(
    `Cannot ${attempt} on cuda:${ordinal}: its module is loaded on cuda:${kernel.module.ordinal}`,
  );
}

function readLaunchLimits(session: CudaSession, ordinal: number): LaunchLimits {
  // A driver that does not know the attribute checks by itself.
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
function checkLaunch(
  attempt: string,
  options: LaunchOptions,
  device: LaunchLimits,
  threadsPerBlockMax: number,
): void {
  checkSizes(attempt, "grid", options.grid, device.grid);
  checkSizes(attempt, "block", options.block, device.block);
  const [x, y, z] = options.block;
  if (x * y * z > threadsPerBlockMax) {
    const wanted = `wanted at most ${threadsPerBlockMax} for this kernel`;
    throw new RangeError(`Cannot ${attempt}: found a block of ${x * y * z} threads, ${wanted}`);
  }
  if (!isWithin(options.sharedBytes, 0, device.sharedBytes)) {
    checkInteger(`Cannot ${attempt}: sharedBytes`, options.sharedBytes, 0, device.sharedBytes);
  }
}

/** Tests before it calls `checkInteger`, because building the message costs more than a launch. */
function checkSizes(
  attempt: string,
  what: "grid" | "block",
  sizes: Dimensions,
  max: Dimensions,
): void {
  for (let axis = 0; axis < AXES.length; axis += 1) {
    const [size, most] = [sizes[axis] as number, max[axis] as number];
    if (!isWithin(size, 1, most))
      checkInteger(`Cannot ${attempt}: ${what} ${AXES[axis]}`, size, 1, most);
  }
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max;
}
