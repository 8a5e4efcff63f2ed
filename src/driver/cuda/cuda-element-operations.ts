/**
 * Operations on elements by this project's own kernels (kernels/), which are compiled by the driver when they are loaded, once for each
 * device and all at once: a kernel that is loaded at its first launch could wait for streams that wait for it.
 */
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { Access } from "../../os/mapping.js";
import { checkOperation, checkReduction, type Touched } from "../element-checks.js";
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
import { granularity } from "./cuda-device.js";
import type { CudaParts } from "./cuda-driver.js";
import { combineResults, planReduction } from "./cuda-reductions.js";
import { CudaResultAreas, RESULT_BYTES, type ResultMemory } from "./cuda-result-areas.js";
import { u64 } from "./kernel-bytes.js";
import { elementKind } from "./kernels/element-access.js";
import { BLOCK_THREADS } from "./kernels/grid-loop.js";
import { kernelNames, kernelSource } from "./kernels/kernel-source.js";

/** The rest of the driver, as far as operations use it. */
export type OperationDriver = ResultMemory &
  KernelCalls &
  Pick<GpuDriver, "fill" | "copyToHost"> & {
    /** @throws CLOSED for a stream that was destroyed, TypeError for one of another driver */
    enter(stream: DriverStream): void;
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

interface Loaded {
  readonly module: DriverModule;
  readonly kernels: ReadonlyMap<string, DriverKernel>;
}

export class CudaElementOperations implements OperationCalls {
  readonly #driver: OperationDriver;
  readonly #sizes: OperationSizes;
  readonly #areas: CudaResultAreas;
  readonly #loaded = new Map<number, Loaded>();

  constructor(driver: OperationDriver, sizes: OperationSizes = usualSizes) {
    this.#driver = driver;
    this.#sizes = sizes;
    this.#areas = new CudaResultAreas(driver, sizes.areas);
  }

  enqueueOperation(stream: DriverStream, operation: ElementOperation): void {
    this.#driver.enter(stream);
    const { touched, scalars } = checkOperation(operation);
    const { kind, dtype, count, to } = operation;
    if (count === 0) return;
    this.#check(stream, touched);
    if (kind === "fill") {
      this.#fill(stream, to, scalars[0] as Uint8Array, count);
      return;
    }
    const from = kind === "affine" ? [u64(operation.from)] : [];
    const name = `${kind}_${elementKind(dtype)}`;
    this.#launch(stream, name, blocksFor(count, this.#sizes.mapBlocks), [u64(to), ...from, u64(count), ...scalars]);
  }

  enqueueReduction<Kind extends ReductionKind>(
    stream: DriverStream,
    reduction: ReductionOf<Kind>,
  ): PendingReduction<ReductionResults[Kind]> {
    this.#driver.enter(stream);
    const touched = checkReduction(reduction);
    const { kernel, count, args, resultBytes } = planReduction(reduction);
    const { kind } = reduction;
    if (count === 0) return pendingReduction(kind, () => combineResults<Kind>(reduction, new Uint8Array(0)));
    this.#check(stream, touched);
    this.#kernel(stream.ordinal, kernel);
    const area = this.#areas.take(stream.ordinal);
    const blocks = blocksFor(count, Math.min(this.#sizes.reductionBlocks, Math.floor(RESULT_BYTES / resultBytes)));
    const byteLength = blocks * resultBytes;
    // WHY the area is not given back where one of these throws: the kernel may be under way, and write to it.
    this.#launch(stream, kernel, blocks, [...args, u64(area.pointer)]);
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

  #fill(stream: DriverStream, to: DevicePointer, value: Uint8Array, count: number): void {
    const { byteLength } = value;
    // WHY the driver's memset: it has all sizes but this one, and needs no kernels to be loaded.
    if (byteLength === 8) {
      this.#launch(stream, "fill_b64", blocksFor(count, this.#sizes.mapBlocks), [u64(to), u64(count), value]);
      return;
    }
    const padded = new Uint8Array(4);
    padded.set(value);
    const pattern = { elementBytes: byteLength, value: new Uint32Array(padded.buffer)[0] as number } as FillPattern;
    this.#driver.fill(stream, to, pattern, count);
  }

  #check(stream: DriverStream, touched: readonly Touched[]): void {
    for (const { address, byteLength, access } of touched) {
      this.#driver.check(stream.ordinal, address, byteLength, access);
    }
  }

  #launch(stream: DriverStream, name: string, blocks: number, args: readonly Uint8Array[]): void {
    const sizes = { grid: [blocks, 1, 1], block: [BLOCK_THREADS, 1, 1], sharedBytes: 0 } as const;
    // SAFETY: the ranges were checked, and stay mapped until the stream has passed them: that is the promise of the seam.
    this.#driver.launchKernel(stream, this.#kernel(stream.ordinal, name), sizes, args);
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
      return { module, kernels };
    });
    this.#loaded.set(ordinal, loaded);
    return loaded;
  }
}

export function createCudaElementOperations(parts: CudaParts, modules: KernelCalls): CudaElementOperations {
  const { session, memories, mappings, hostMemory, streams } = parts;
  return new CudaElementOperations({
    ...modules,
    granularityBytes: (ordinal) => granularity(session, ordinal),
    createMemory: (ordinal, byteLength) => memories.create(ordinal, byteLength),
    releaseMemory: (memory) => memories.release(memory),
    mapMemory: (memory, access) => mappings.map(memory, access),
    unmapMemory: (ordinal, pointer) => mappings.unmap(ordinal, pointer),
    allocateStaging: (ordinal, byteLength) => hostMemory.allocateStaging(ordinal, byteLength),
    freeStaging: (staging) => hostMemory.freeStaging(staging),
    fill: (stream, to, pattern, count) => streams.fill(stream, to, pattern, count),
    copyToHost: (stream, to, from, byteLength) => streams.copyToHost(stream, to, from, byteLength),
    enter: (stream) => void streams.enter(stream),
    check: (ordinal, address, byteLength, access) => streams.check(ordinal, address, byteLength, access),
  });
}

function blocksFor(count: number, max: number): number {
  return Math.min(Math.ceil(count / BLOCK_THREADS), max);
}
