/**
 * Operations on elements by this project's own kernels (kernels/). The driver compiles them when
 * they are loaded, all at once for each device. A kernel loaded at its first launch could wait for
 * streams that wait for it.
 */
import { type ArithmeticDType, arithmeticDTypes, elementBytes } from "../../array/arithmetic.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { Access } from "../../os/mapping.js";
import {
  type ComputingOperation,
  checkOperands,
  checkReduction,
  storeScalars,
} from "../common/element-checks.js";
import { pendingReduction } from "../common/pending-reduction.js";
import type { DriverKernel, DriverModule } from "../kernel-calls.js";
import type { DevicePointer } from "../memory-calls.js";
import type {
  ElementOperation,
  OperationCalls,
  PendingReduction,
  ReductionKind,
  ReductionOf,
  ReductionResults,
} from "../operation-calls.js";
import type { DriverStream, FillPattern, StreamCalls } from "../stream-calls.js";
import type { ModuleCalls } from "./cuda-modules.js";
import { combineResults, planReduction } from "./cuda-reductions.js";
import { CudaResultAreas, RESULT_BYTES, type ResultMemory } from "./cuda-result-areas.js";
import { elementKind } from "./kernels/element-access.js";
import { BLOCK_THREADS } from "./kernels/grid-loop.js";
import { kernelNames, kernelSource } from "./kernels/kernel-source.js";
import { ArgumentBlock, u64 } from "./launch-arguments.js";

/** The calls of the driver that operations use. */
export type OperationDriver = ResultMemory &
  ModuleCalls &
  Pick<StreamCalls, "fill" | "copyToHost"> & {
    /** @throws CLOSED for a stream that was destroyed, TypeError for one of another driver */
    checkStream(stream: DriverStream): void;
    /**
     * Enqueues a kernel of BLOCK_THREADS threads a block; the arguments are copied before this
     * returns.
     */
    launch(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void;
    check(ordinal: number, address: DevicePointer, byteLength: number, access: Access): void;
  };

export interface OperationSizes {
  /**
   * The most blocks of a launch, more than a GPU runs at a time. A thread may have several
   * elements.
   */
  readonly mapBlocks: number;
  /**
   * The most blocks of a reduction, each with its own result: about what a large GPU runs at a
   * time.
   */
  readonly reductionBlocks: number;
  /** How many result areas are made at a time. */
  readonly areas: number;
}

const usualSizes: OperationSizes = { mapBlocks: 16_384, reductionBlocks: 1024, areas: 16 };

type FillOperation = Extract<ElementOperation, { kind: "fill" }>;

interface Loaded {
  readonly module: DriverModule;
  readonly kernels: ReadonlyMap<string, DriverKernel>;
  /** By dtype, because building a kernel's name takes as long as checking its launch. */
  readonly iota: ReadonlyMap<ArithmeticDType, DriverKernel>;
  readonly affine: ReadonlyMap<ArithmeticDType, DriverKernel>;
}

export class CudaElementOperations implements OperationCalls {
  readonly #driver: OperationDriver;
  readonly #sizes: OperationSizes;
  readonly #areas: CudaResultAreas;
  readonly #loaded = new Map<number, Loaded>();
  /** Made at the first launch, because most drivers launch nothing. */
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
    if (count === 0)
      return pendingReduction(kind, () => combineResults<Kind>(reduction, new Uint8Array(0)));
    for (const { address, byteLength, access } of touched) {
      this.#driver.check(stream.ordinal, address, byteLength, access);
    }
    this.#kernel(stream.ordinal, kernel);
    const area = this.#areas.take(stream.ordinal);
    const blocks = blocksFor(
      count,
      Math.min(this.#sizes.reductionBlocks, Math.floor(RESULT_BYTES / resultBytes)),
    );
    const byteLength = blocks * resultBytes;
    // WHY the area is kept if one of these throws: the kernel may be running, and writes to it.
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

  /** Frees everything that was loaded and allocated. The streams are idle. */
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
   * Writes arguments directly to the block: arrays of bytes would cost more than the driver's call.
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

  #fill(
    stream: DriverStream,
    { dtype, to, count, value: scalar }: FillOperation,
    touchedBytes: number,
  ): void {
    const value = elementBytes("Fill: value", dtype, scalar);
    if (count === 0) return;
    this.#driver.check(stream.ordinal, to, touchedBytes, "read-write");
    const { byteLength } = value;
    // The driver's memset has all other sizes, and needs no kernels.
    if (byteLength === 8) {
      this.#arguments ??= new ArgumentBlock();
      this.#arguments.setAll([u64(to), u64(count), value]);
      const kernel = this.#kernel(stream.ordinal, "fill_b64");
      this.#launch(stream, kernel, blocksFor(count, this.#sizes.mapBlocks), this.#arguments);
      return;
    }
    const padded = new Uint8Array(4);
    padded.set(value);
    const pattern = {
      elementBytes: byteLength,
      value: new Uint32Array(padded.buffer)[0] as number,
    } as FillPattern;
    this.#driver.fill(stream, to, pattern, count);
  }

  #launch(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void {
    // SAFETY: the ranges were checked. By the seam's rules they stay mapped until the stream has
    // passed.
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
      // WHY all now: a driver that loads lazily loads a kernel when it is looked up.
      const kernels = new Map(
        kernelNames(source).map((name) => [name, driver.findKernel(module, name)]),
      );
      return {
        module,
        kernels,
        iota: byDType("iota", kernels),
        affine: byDType("affine", kernels),
      };
    });
    this.#loaded.set(ordinal, loaded);
    return loaded;
  }
}

function byDType(
  kind: ComputingOperation["kind"],
  kernels: ReadonlyMap<string, DriverKernel>,
): Map<ArithmeticDType, DriverKernel> {
  return new Map(
    arithmeticDTypes.map((dtype) => [
      dtype,
      kernels.get(`${kind}_${elementKind(dtype)}`) as DriverKernel,
    ]),
  );
}

function blocksFor(count: number, max: number): number {
  return Math.min(Math.ceil(count / BLOCK_THREADS), max);
}
