/**
 * The host driver with the element operations of the CUDA driver. Their kernels run in the PTX
 * machine, in stream order. It does not use the CUDA driver itself.
 */

import { checkWithin } from "../../src/driver/common/argument-checks.js";
import {
  CudaElementOperations,
  type OperationDriver,
  type OperationSizes,
} from "../../src/driver/cuda/cuda-element-operations.js";
import { BLOCK_THREADS } from "../../src/driver/cuda/kernels/grid-loop.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { HostStream } from "../../src/driver/host/host-stream.js";
import type { DriverKernel } from "../../src/driver/kernel-calls.js";
import { viewAt } from "../../src/os/host-memory.js";
import type { Access } from "../../src/os/mapping.js";
import { interceptDriver } from "./intercept-driver.js";
import { PtxKernel, type PtxMemory } from "./ptx-machine.js";

type OwnKernels = Pick<OperationDriver, "loadModule" | "unloadModule" | "findKernel" | "launch">;

interface LoadedKernel extends DriverKernel {
  readonly ptx: PtxKernel;
}

export interface PtxDriver {
  readonly driver: GpuDriver;
  /** The loaded modules, and what operations hold of the driver beneath. */
  readonly held: { modules: number; memories: number; mappings: number; stagings: number };
}

/** These run first and then fail, so the counts show only leaks of the caller. */
const releases: readonly string[] = ["releaseMemory", "unmapMemory", "freeStaging"];

/** @param fails throws to make a call of the operations to the rest of the driver fail */
export function createPtxDriver(
  sizes?: OperationSizes,
  fails: (call: string) => void = () => {},
): PtxDriver {
  const memory = new MappedRanges();
  const held = { modules: 0, memories: 0, mappings: 0, stagings: 0 };
  const host = memory.watch(createHostDriver());
  const calls = interceptDriver(host, {
    before: (call) => {
      if (!releases.includes(call)) fails(call);
    },
    after: (call) => {
      if (call === "createMemory") held.memories += 1;
      if (call === "releaseMemory") held.memories -= 1;
      if (call === "mapMemory") held.mappings += 1;
      if (call === "unmapMemory") held.mappings -= 1;
      if (call === "allocateStaging") held.stagings += 1;
      if (call === "freeStaging") held.stagings -= 1;
      if (releases.includes(call)) fails(call);
    },
  });
  const operations = new CudaElementOperations(
    {
      ...kernelCalls(memory, held, fails),
      granularityBytes: (ordinal) => calls.describeDevice(ordinal).granularityBytes,
      createMemory: (ordinal, byteLength) => calls.createMemory(ordinal, byteLength),
      releaseMemory: (it) => calls.releaseMemory(it),
      mapMemory: (it, access) => calls.mapMemory(it, access),
      unmapMemory: (ordinal, pointer) => calls.unmapMemory(ordinal, pointer),
      allocateStaging: (ordinal, byteLength) => calls.allocateStaging(ordinal, byteLength),
      freeStaging: (staging) => calls.freeStaging(staging),
      fill: (stream, to, pattern, count) => calls.fill(stream, to, pattern, count),
      copyToHost: (stream, to, from, byteLength) => calls.copyToHost(stream, to, from, byteLength),
      checkStream: (stream) => void host.isIdle(stream),
      check: (_, address, byteLength, access) => memory.check(address, byteLength, access),
    },
    sizes,
  );
  const driver: GpuDriver = {
    ...host,
    enqueueOperation: (stream, operation) => operations.enqueueOperation(stream, operation),
    enqueueReduction: (stream, reduction) => operations.enqueueReduction(stream, reduction),
    prepareOperations: (ordinal) => operations.prepareOperations(ordinal),
    close: () => {
      operations.close();
      host.close();
    },
  };
  return { driver, held };
}

function kernelCalls(
  memory: PtxMemory,
  held: { modules: number },
  fails: (call: string) => void,
): OwnKernels {
  const kernelsOf = new Map<object, Map<string, PtxKernel>>();
  return {
    loadModule(ordinal, image) {
      fails("loadModule");
      const module = { ordinal, kernelNames: undefined };
      kernelsOf.set(module, PtxKernel.parse(new TextDecoder().decode(image)));
      held.modules += 1;
      return module;
    },
    unloadModule(module) {
      if (!kernelsOf.delete(module)) throw new Error("no such module");
      held.modules -= 1;
      fails("unloadModule");
    },
    findKernel(module, name): LoadedKernel {
      fails("findKernel");
      const ptx = kernelsOf.get(module)?.get(name);
      if (ptx === undefined) throw new Error(`no kernel ${name}`);
      return { name, ptx, parameters: undefined, threadsPerBlockMax: 1024 };
    },
    launch(stream, kernel, blocks, block) {
      fails("launchKernel");
      const { ptx } = kernel as LoadedKernel;
      const args = ptx.parameters.map((it, index) => block.value(index, it.byteLength));
      if (!(stream instanceof HostStream)) throw new Error("no stream of the host");
      const step = () => {
        ptx.run(blocks, BLOCK_THREADS, args, memory);
        return "done" as const;
      };
      stream.enqueue({ byteLength: 1, step });
    },
  };
}

/** The ranges that the driver has mapped, as a GPU's page tables have them. */
class MappedRanges implements PtxMemory {
  readonly #ranges: {
    readonly start: bigint;
    readonly bytes: Uint8Array;
    readonly writable: boolean;
  }[] = [];

  watch(driver: GpuDriver): GpuDriver {
    return {
      ...driver,
      mapMemory: (memory, access) => {
        const start = driver.mapMemory(memory, access);
        this.#ranges.unshift({
          start,
          bytes: viewAt(start, memory.byteLength),
          writable: access === "read-write",
        });
        return start;
      },
      unmapMemory: (ordinal, pointer) => {
        const index = this.#ranges.findIndex(({ start }) => start === pointer);
        if (index >= 0) this.#ranges.splice(index, 1);
        driver.unmapMemory(ordinal, pointer);
      },
    };
  }

  /** Checks an access as the CUDA driver does when it is enqueued. */
  check(address: bigint, byteLength: number, access: Access): void {
    const { start, bytes, writable } = this.#holding(address) ?? {};
    if (start === undefined || bytes === undefined) return;
    const range = {
      start,
      byteLength: bytes.byteLength,
      access: writable ? "read-write" : "read",
    } as const;
    checkWithin(range, address, byteLength, access);
  }

  at(
    address: bigint,
    byteLength: number,
    access: "read" | "write",
  ): { view: DataView; offset: number } {
    if (address % BigInt(byteLength) !== 0n)
      throw new Error(`misaligned: ${byteLength} bytes at ${address}`);
    const range = this.#holding(address);
    if (range === undefined) throw new Error(`illegal address ${address}`);
    if (access === "write" && !range.writable)
      throw new Error(`write to read-only memory at ${address}`);
    return { view: viewOf(range.bytes), offset: Number(address - range.start) };
  }

  #holding(address: bigint) {
    return this.#ranges.find(
      (it) => address >= it.start && address - it.start < it.bytes.byteLength,
    );
  }
}

const views = new WeakMap<Uint8Array, DataView>();

function viewOf(bytes: Uint8Array): DataView {
  let view = views.get(bytes);
  if (view === undefined) {
    view = new DataView(bytes.buffer);
    views.set(bytes, view);
  }
  return view;
}
