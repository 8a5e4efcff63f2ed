/**
 * Operations on elements by this project's own kernels (kernels/), which are compiled by the driver when they are loaded, once for each
 * device and all at once: a kernel that is loaded at its first launch could wait for streams that wait for it.
 */
import { type ArithmeticDType, arithmeticDTypes, elementBytes } from "../../array/arithmetic.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { Access } from "../../os/mapping.js";
import { type ComputingOperation, checkOperands, checkReduction, storeScalars } from "../element-checks.js";
import type { DevicePointer, DriverStream, FillPattern, GpuDriver } from "../gpu-driver.js";
import type { DriverKernel, DriverModule, KernelCalls } from "../kernel-calls.js";
import type {
  ElementOperation,
  OperationCalls,
  PendingReduction,
  ReductionKind,
  ReductionOf,
  ReductionResults,
} from "../operation-calls.js";
import { pendingReduction } from "../pending-reduction.js";
import { ArgumentBlock } from "./argument-block.js";
import { granularity } from "./cuda-device.js";
import type { CudaParts } from "./cuda-driver.js";
import type { CudaModules } from "./cuda-modules.js";
import { combineResults, planReduction } from "./cuda-reductions.js";
import { CudaResultAreas, RESULT_BYTES, type ResultMemory } from "./cuda-result-areas.js";
import { u64 } from "./kernel-bytes.js";
import { elementKind } from "./kernels/element-access.js";
import { BLOCK_THREADS } from "./kernels/grid-loop.js";
import { kernelNames, kernelSource } from "./kernels/kernel-source.js";

/** The rest of the driver, as far as operations use it. */
export type OperationDriver = ResultMemory &
  Pick<KernelCalls, "loadModule" | "unloadModule" | "findKernel"> &
  Pick<GpuDriver, "fill" | "copyToHost"> & {
    /** @throws CLOSED for a stream that was destroyed, TypeError for one of another driver */
    checkStream(stream: DriverStream): void;
    /** Enqueues a kernel of BLOCK_THREADS threads a block; the arguments are copied before this returns. */
    launch(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void;
    check(ordinal: number, address: DevicePointer, byteLength: number, access: Access): void;
  };

export interface OperationSizes {
  /** The most blocks of a launch: more than a GPU runs at a time. With more elements than threads, each thread has several. */
  readonly mapBlocks: number;
  /** The most blocks of a reduction, each with a result of its own: about as many as a large GPU runs at a time. */
  readonly reductionBlocks: number;
  /** Areas for results that are made at a time. */
  readonly areas: number;
}

const usualSizes: OperationSizes = { mapBlocks: 16_384, reductionBlocks: 1024, areas: 16 };

type FillOperation = Extract<ElementOperation, { kind: "fill" }>;

interface Loaded {
  readonly module: DriverModule;
  readonly kernels: ReadonlyMap<string, DriverKernel>;
  /** WHY apart: the name of a kernel takes as long to make as its launch to check. */
  readonly iota: ReadonlyMap<ArithmeticDType, DriverKernel>;
  readonly affine: ReadonlyMap<ArithmeticDType, DriverKernel>;
}

export class CudaElementOperations implements OperationCalls {
  readonly #driver: OperationDriver;
  readonly #sizes: OperationSizes;
  readonly #areas: CudaResultAreas;
  readonly #loaded = new Map<number, Loaded>();
  /** WHY made at the first launch: most drivers launch nothing. */
  #arguments: ArgumentBlock | undefined;

  constructor(driver: OperationDriver, sizes: OperationSizes = usualSizes) {
    this.#driver = driver;
    this.#sizes = sizes;
    this.#areas = new CudaResultAreas(driver, sizes.areas);
  }

  enqueueOperation(stream: DriverStream, operation: ElementOperation): void {
    this.#driver.checkStream(stream);
    const byteLength = checkOperands(operation);
    if (operation.kind === "fill") this.#fill(stream, operation, byteLength);
    else this.#compute(stream, operation, byteLength);
  }

  enqueueReduction<Kind extends ReductionKind>(
    stream: DriverStream,
    reduction: ReductionOf<Kind>,
  ): PendingReduction<ReductionResults[Kind]> {
    this.#driver.checkStream(stream);
    const touched = checkReduction(reduction);
    const { kernel, count, args, resultBytes } = planReduction(reduction);
    const { kind } = reduction;
    if (count === 0) return pendingReduction(kind, () => combineResults<Kind>(reduction, new Uint8Array(0)));
    for (const { address, byteLength, access } of touched) {
      this.#driver.check(stream.ordinal, address, byteLength, access);
    }
    this.#kernel(stream.ordinal, kernel);
    const area = this.#areas.take(stream.ordinal);
    const blocks = blocksFor(count, Math.min(this.#sizes.reductionBlocks, Math.floor(RESULT_BYTES / resultBytes)));
    const byteLength = blocks * resultBytes;
    // WHY the area is not given back where one of these throws: the kernel may be under way, and write to it.
    this.#arguments ??= new ArgumentBlock();
    this.#arguments.setAll([...args, u64(area.pointer)]);
    this.#launch(stream, this.#kernel(stream.ordinal, kernel), blocks, this.#arguments);
    this.#driver.copyToHost(stream, area.staging, area.pointer, byteLength);
    const take = () => combineResults<Kind>(reduction, area.bytes.subarray(0, byteLength));
    return pendingReduction(kind, take, () => this.#areas.giveBack(area));
  }

  prepareOperations(ordinal: number): void {
    this.#load(ordinal);
    this.#areas.reserve(ordinal);
  }

  /** Gives back all that was loaded and allocated. The streams are idle. */
  close(): void {
    const loaded = [...this.#loaded.values()];
    this.#loaded.clear();
    releaseAll([
      () => this.#areas.close(),
      ...loaded.map(
        ({ module }) =>
          () =>
            this.#driver.unloadModule(module),
      ),
    ]);
  }

  /**
   * WHY the arguments go straight to where the driver takes them from: an array of bytes for each would cost more than the driver's call.
   */
  #compute(stream: DriverStream, operation: ComputingOperation, touchedBytes: number): void {
    const { kind, dtype, count, to } = operation;
    this.#arguments ??= new ArgumentBlock();
    const args = this.#arguments;
    const countAt = kind === "affine" ? 2 : 1;
    storeScalars(operation, args.words, countAt + 1);
    if (count === 0) return;
    this.#driver.check(stream.ordinal, to, touchedBytes, "read-write");
    args.setAddress(0, to);
    if (kind === "affine") {
      this.#driver.check(stream.ordinal, operation.from, touchedBytes, "read");
      args.setAddress(1, operation.from);
    }
    args.setCount(countAt, count);
    const kernel = this.#load(stream.ordinal)[kind].get(dtype) as DriverKernel;
    this.#launch(stream, kernel, blocksFor(count, this.#sizes.mapBlocks), args);
  }

  #fill(stream: DriverStream, { dtype, to, count, value: scalar }: FillOperation, touchedBytes: number): void {
    const value = elementBytes("Fill: value", dtype, scalar);
    if (count === 0) return;
    this.#driver.check(stream.ordinal, to, touchedBytes, "read-write");
    const { byteLength } = value;
    // WHY the driver's memset: it has all sizes but this one, and needs no kernels to be loaded.
    if (byteLength === 8) {
      this.#arguments ??= new ArgumentBlock();
      this.#arguments.setAll([u64(to), u64(count), value]);
      const kernel = this.#kernel(stream.ordinal, "fill_b64");
      this.#launch(stream, kernel, blocksFor(count, this.#sizes.mapBlocks), this.#arguments);
      return;
    }
    const padded = new Uint8Array(4);
    padded.set(value);
    const pattern = { elementBytes: byteLength, value: new Uint32Array(padded.buffer)[0] as number } as FillPattern;
    this.#driver.fill(stream, to, pattern, count);
  }

  #launch(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void {
    // SAFETY: the ranges were checked, and stay mapped until the stream has passed them: that is the promise of the seam.
    this.#driver.launch(stream, kernel, blocks, args);
  }

  #kernel(ordinal: number, name: string): DriverKernel {
    return this.#load(ordinal).kernels.get(name) as DriverKernel;
  }

  #load(ordinal: number): Loaded {
    const known = this.#loaded.get(ordinal);
    if (known !== undefined) return known;
    const driver = this.#driver;
    const source = kernelSource();
    const loaded = acquireIn((scope) => {
      const image = new TextEncoder().encode(source);
      const module = scope.own(driver.loadModule(ordinal, image), (it) => driver.unloadModule(it));
      // WHY all are looked for now: where the driver loads lazily, this is what loads a kernel.
      const kernels = new Map(kernelNames(source).map((name) => [name, driver.findKernel(module, name)]));
      return { module, kernels, iota: byDType("iota", kernels), affine: byDType("affine", kernels) };
    });
    this.#loaded.set(ordinal, loaded);
    return loaded;
  }
}

export function createCudaElementOperations(parts: CudaParts, modules: CudaModules): CudaElementOperations {
  const { session, memories, mappings, hostMemory, streams } = parts;
  return new CudaElementOperations({
    loadModule: (ordinal, image) => modules.load(ordinal, image),
    unloadModule: (module) => modules.unload(module),
    findKernel: (module, name) => modules.find(module, name),
    launch: (stream, kernel, blocks, args) => modules.launchOwn(stream, kernel, blocks, args),
    granularityBytes: (ordinal) => granularity(session, ordinal),
    createMemory: (ordinal, byteLength) => memories.create(ordinal, byteLength),
    releaseMemory: (memory) => memories.release(memory),
    mapMemory: (memory, access) => mappings.map(memory, access),
    unmapMemory: (ordinal, pointer) => mappings.unmap(ordinal, pointer),
    allocateStaging: (ordinal, byteLength) => hostMemory.allocateStaging(ordinal, byteLength),
    freeStaging: (staging) => hostMemory.freeStaging(staging),
    fill: (stream, to, pattern, count) => streams.fill(stream, to, pattern, count),
    copyToHost: (stream, to, from, byteLength) => streams.copyToHost(stream, to, from, byteLength),
    checkStream: (stream) => void streams.usable(stream),
    check: (ordinal, address, byteLength, access) => streams.check(ordinal, address, byteLength, access),
  });
}

function byDType(
  kind: ComputingOperation["kind"],
  kernels: ReadonlyMap<string, DriverKernel>,
): Map<ArithmeticDType, DriverKernel> {
  return new Map(
    arithmeticDTypes.map((dtype) => [dtype, kernels.get(`${kind}_${elementKind(dtype)}`) as DriverKernel]),
  );
}

function blocksFor(count: number, max: number): number {
  return Math.min(Math.ceil(count / BLOCK_THREADS), max);
}
