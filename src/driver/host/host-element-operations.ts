/**
 * Operations on elements by the CPU, as operations of a host stream. They run in steps short enough
 * for the event loop. Each step works on a window of the memory, whose addresses are checked again.
 * The loops over a window are in element-loops.ts and element-reductions.ts.
 */
import { dtypeFacts } from "../../array/dtype.js";
import { viewMemory } from "../../ffi/koffi.js";
import { checkOperation, checkReduction } from "../common/element-checks.js";
import { pendingReduction } from "../common/pending-reduction.js";
import type { DevicePointer } from "../memory-calls.js";
import type {
  ElementOperation,
  OperationCalls,
  ReductionKind,
  ReductionOf,
} from "../operation-calls.js";
import type { DriverStream } from "../stream-calls.js";
import { affineLoop, fillLoop, iotaLoop } from "./element-loops.js";
import { startReduction } from "./element-reductions.js";
import type { HostAddresses } from "./host-addresses.js";
import type { HostOperation } from "./host-operations.js";
import type { HostSession } from "./host-session.js";
import type { HostStreams } from "./host-streams.js";

/** Takes 0.1 to 1 ms for most dtypes, and some milliseconds for bigints and encoded floats. */
const STEP_ELEMENTS = 32 * 1024;

export function hostElementOperations(
  session: HostSession,
  addresses: HostAddresses,
  streams: HostStreams,
): OperationCalls {
  return {
    enqueueOperation(stream, operation) {
      const queue = streams.queueOf(stream);
      const { touched, scalars } = checkOperation(operation);
      if (operation.count === 0) return;
      for (const { address, byteLength, access } of touched)
        addresses.check(address, byteLength, access);
      queue.enqueue(mapElements(addresses, operation, scalars));
    },

    enqueueReduction<Kind extends ReductionKind>(
      stream: DriverStream,
      reduction: ReductionOf<Kind>,
    ) {
      const queue = streams.queueOf(stream);
      const touched = checkReduction(reduction);
      const steps = startReduction<Kind>(reduction);
      if (steps.count > 0) {
        for (const { address, byteLength, access } of touched)
          addresses.check(address, byteLength, access);
        const starts = touched.map(({ address }) => address);
        const { count, elementBytes } = steps;
        queue.enqueue(
          inElementSteps(count, elementBytes * starts.length, (index, length) => {
            const byteOffset = BigInt(index * elementBytes);
            const byteLength = Math.min(
              length * elementBytes,
              (touched[0]?.byteLength ?? 0) - Number(byteOffset),
            );
            const windows = starts.map((it) =>
              window(addresses, it + byteOffset, byteLength, "read"),
            );
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
  addresses: HostAddresses,
  operation: ElementOperation,
  scalars: readonly Uint8Array[],
): HostOperation {
  const { kind, dtype, to, count } = operation;
  const { byteSize } = dtypeFacts(dtype);
  const [first = new Uint8Array(0), second = new Uint8Array(0)] = scalars;
  const target = (index: number, length: number) =>
    window(addresses, to + BigInt(index * byteSize), length * byteSize, "read-write");
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
        const source = window(
          addresses,
          operation.from + BigInt(index * byteSize),
          length * byteSize,
          "read",
        );
        loop(target(index, length), source);
      });
    }
  }
}

/** Views bytes of this process, after a check of their addresses. */
function window(
  addresses: HostAddresses,
  address: DevicePointer,
  byteLength: number,
  access: "read" | "read-write",
): ArrayBuffer {
  addresses.check(address, byteLength, access);
  // SAFETY: the range was checked just now. The view is used only within this step, and nothing
  // runs in between.
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
