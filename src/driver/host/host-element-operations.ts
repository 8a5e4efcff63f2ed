/**
 * Operations on elements by the CPU, as operations of a host stream: in steps that are short enough for the event loop, each on a window
 * of the memory whose addresses are checked again. What a window is computed with is in element-loops.ts and element-reductions.ts.
 */
import { dtypeFacts } from "../../array/dtype.js";
import { viewMemory } from "../../ffi/koffi.js";
import { checkOperation, checkReduction } from "../element-checks.js";
import type { DevicePointer, DriverStream } from "../gpu-driver.js";
import type { ElementOperation, OperationCalls, ReductionKind, ReductionOf } from "../operation-calls.js";
import { pendingReduction } from "../pending-reduction.js";
import { affineLoop, fillLoop, iotaLoop } from "./element-loops.js";
import { startReduction } from "./element-reductions.js";
import type { HostParts } from "./host-driver.js";
import type { HostMemories } from "./host-memory.js";
import type { HostOperation } from "./host-operations.js";

/** Some tenths of a millisecond for most dtypes, some milliseconds for those whose elements are bigints or are encoded. */
const STEP_ELEMENTS = 32 * 1024;

export function createHostElementOperations({ session, memories, streams }: HostParts): OperationCalls {
  return {
    enqueueOperation(stream, operation) {
      const queue = streams.queueOf(stream);
      const { touched, scalars } = checkOperation(operation);
      if (operation.count === 0) return;
      for (const { address, byteLength, access } of touched) memories.check(address, byteLength, access);
      queue.enqueue(mapElements(memories, operation, scalars));
    },

    enqueueReduction<Kind extends ReductionKind>(stream: DriverStream, reduction: ReductionOf<Kind>) {
      const queue = streams.queueOf(stream);
      const touched = checkReduction(reduction);
      const steps = startReduction<Kind>(reduction);
      if (steps.count > 0) {
        for (const { address, byteLength, access } of touched) memories.check(address, byteLength, access);
        const addresses = touched.map(({ address }) => address);
        const { count, elementBytes } = steps;
        queue.enqueue(
          inElementSteps(count, elementBytes * addresses.length, (index, length) => {
            const byteOffset = BigInt(index * elementBytes);
            const byteLength = Math.min(length * elementBytes, (touched[0]?.byteLength ?? 0) - Number(byteOffset));
            const windows = addresses.map((it) => window(memories, it + byteOffset, byteLength, "read"));
            steps.add(windows, index);
          }),
        );
      }
      return pendingReduction(reduction.kind, () => steps.result());
    },

    prepareOperations: (ordinal) => session.use(ordinal),
  };
}

function mapElements(
  memories: HostMemories,
  operation: ElementOperation,
  scalars: readonly Uint8Array[],
): HostOperation {
  const { kind, dtype, to, count } = operation;
  const { byteSize } = dtypeFacts(dtype);
  const [first = new Uint8Array(0), second = new Uint8Array(0)] = scalars;
  const target = (index: number, length: number) =>
    window(memories, to + BigInt(index * byteSize), length * byteSize, "read-write");
  switch (kind) {
    case "fill": {
      const loop = fillLoop(first);
      return inElementSteps(count, byteSize, (index, length) => loop(target(index, length)));
    }
    case "iota": {
      const loop = iotaLoop(dtype, first, second);
      return inElementSteps(count, byteSize, (index, length) => loop(target(index, length), index));
    }
    case "affine": {
      const loop = affineLoop(dtype, first, second);
      return inElementSteps(count, 2 * byteSize, (index, length) => {
        const source = window(memories, operation.from + BigInt(index * byteSize), length * byteSize, "read");
        loop(target(index, length), source);
      });
    }
  }
}

/** Bytes of this process at an address that is checked now. */
function window(
  memories: HostMemories,
  address: DevicePointer,
  byteLength: number,
  access: "read" | "read-write",
): ArrayBuffer {
  memories.check(address, byteLength, access);
  // SAFETY: found in memory of this driver just now; used within the step alone, and nothing runs in between.
  return viewMemory(address, byteLength);
}

function inElementSteps(
  count: number,
  touchedBytes: number,
  work: (index: number, length: number) => void,
): HostOperation {
  let done = 0;
  return {
    byteLength: count * touchedBytes,
    step() {
      const length = Math.min(count - done, STEP_ELEMENTS);
      work(done, length);
      done += length;
      return done === count ? "done" : "more";
    },
  };
}
