/**
 * Operations on the elements of arrays, computed by the device: on the caller's stream, or on a
 * temporary stream that the call waits for. The arrays must be contiguous and on one device. Their
 * memory stays mapped until the work is done.
 */
import { checkArithmetic, type Scalar } from "../../array/arithmetic.js";
import type { DType } from "../../array/dtype.js";
import type { Statistics } from "../../array/statistics.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { anObject, optionsOf } from "../../base/option-checks.js";
import type { DevicePointer, DriverStream, GpuDriver } from "../../driver/gpu-driver.js";
import type { ElementOperation, PendingReduction } from "../../driver/operation-calls.js";
import type { MappedMemory } from "../memory/mapped-memory.js";
import { operationChecks } from "../option-checks.js";
import { waitUntil } from "../order/adaptive-wait.js";
import type { Stream } from "../order/stream.js";
import type { DeviceArray } from "./device-array.js";

/**
 * With a stream, the work is enqueued before the call returns. Operations then resolve at once.
 * Reductions resolve when the stream is next idle; after TIMEOUT or ABORTED the work continues.
 * Without a stream, work that has begun is always finished.
 */
export interface OperationOptions extends WaitOptions {
  readonly stream?: Stream | undefined;
}

export interface AffineOptions<D extends DType = DType> extends OperationOptions {
  /** An array of the same dtype and size; by default the array itself. */
  readonly from?: DeviceArray<D> | undefined;
}

const checkOptions = optionsOf<OperationOptions>("an operation on an array", operationChecks);
const checkAffine = optionsOf<AffineOptions>("affine()", {
  ...operationChecks,
  from: anObject,
});

/** An array that an operation uses. */
export interface Use {
  readonly array: DeviceArray;
  readonly intent: "read" | "write";
}

type Enqueue<Result> = (
  driver: GpuDriver,
  stream: DriverStream,
  pointers: readonly DevicePointer[],
) => PendingReduction<Result>;

interface Task<Result> {
  /** All arrays it uses. The first is the one whose method was called. */
  readonly uses: readonly [Use, ...Use[]];
  readonly enqueue: Enqueue<Result>;
}

/**
 * Fills the array. As with all operations here, the result is undefined if the work was enqueued on
 * the caller's stream, and otherwise a promise that resolves when it is done.
 */
export function fillArray(
  to: DeviceArray,
  value: Scalar,
  options: OperationOptions,
): Promise<void> | undefined {
  checkOptions(options);
  return operate("fill", to, undefined, options, (pointer) => {
    const { dtype, elementCount: count } = to;
    return { kind: "fill", dtype: checkArithmetic("fill", dtype), to: pointer, count, value };
  });
}

export function countUp(
  to: DeviceArray,
  { start, step }: { readonly start: Scalar; readonly step: Scalar },
  options: OperationOptions,
): Promise<void> | undefined {
  checkOptions(options);
  return operate("count up in", to, undefined, options, (pointer) => {
    const { dtype, elementCount: count } = to;
    return {
      kind: "iota",
      dtype: checkArithmetic("count up", dtype),
      to: pointer,
      count,
      start,
      step,
    };
  });
}

export function affineArray(
  to: DeviceArray,
  { a, b, from }: { readonly a: Scalar; readonly b: Scalar; readonly from: DeviceArray },
  options: AffineOptions,
): Promise<void> | undefined {
  checkAffine(options);
  checkAlike("compute", to, from);
  return operate("compute", to, from, options, (pointer, source) => {
    const { dtype, elementCount: count } = to;
    return {
      kind: "affine",
      dtype: checkArithmetic("compute", dtype),
      to: pointer,
      from: source,
      count,
      a,
      b,
    };
  });
}

export async function checksumArray(
  array: DeviceArray,
  options: OperationOptions,
): Promise<bigint> {
  checkOptions(options);
  return reduce("checksum", [{ array, intent: "read" }], options, (driver, stream, [from = 0n]) =>
    driver.enqueueReduction<"checksum">(stream, {
      kind: "checksum",
      from,
      byteLength: array.byteLength,
    }),
  );
}

export async function arrayStatistics(
  array: DeviceArray,
  options: OperationOptions,
): Promise<Statistics> {
  checkOptions(options);
  return reduce(
    "find the statistics of",
    [{ array, intent: "read" }],
    options,
    (driver, stream, [from = 0n]) => {
      const { dtype, elementCount: count } = array;
      return driver.enqueueReduction<"statistics">(stream, {
        kind: "statistics",
        dtype: checkArithmetic("find statistics", dtype),
        from,
        count,
      });
    },
  );
}

const UNLIMITED = new Deadline("finish an operation", {}, Number.POSITIVE_INFINITY);

/** The pending result of an operation that has none. */
const nothing: PendingReduction<void> = { result() {}, discard() {} };

/** @param make builds the operation from the addresses; `source` is 0 if it reads no array */
function operate(
  verb: string,
  to: DeviceArray,
  from: DeviceArray | undefined,
  options: OperationOptions,
  make: (to: DevicePointer, source: DevicePointer) => ElementOperation,
): Promise<void> | undefined {
  checkTask(verb, to, from, options);
  const { stream } = options;
  if (stream === undefined) return onOwnStream(operationTask(to, from, make), options);
  const { handle } = stream;
  const pointer = pointerOn(stream, to, "write");
  const source = from === undefined ? 0n : pointerOn(stream, from, "read");
  stream.device.driver.enqueueOperation(handle, make(pointer, source));
  return undefined;
}

function operationTask(
  to: DeviceArray,
  from: DeviceArray | undefined,
  make: (to: DevicePointer, source: DevicePointer) => ElementOperation,
): Task<void> {
  const target: Use = { array: to, intent: "write" };
  return {
    uses: from === undefined ? [target] : [target, { array: from, intent: "read" }],
    enqueue(driver, stream, [pointer = 0n, source = 0n]) {
      driver.enqueueOperation(stream, make(pointer, source));
      return nothing;
    },
  };
}

/** Enqueues a reduction and resolves to its result. */
export async function reduce<Result>(
  verb: string,
  uses: Task<Result>["uses"],
  options: OperationOptions,
  enqueue: Enqueue<Result>,
): Promise<Result> {
  const task: Task<Result> = { uses, enqueue };
  checkTask(verb, uses[0].array, uses[1]?.array, options);
  const { stream } = options;
  if (stream === undefined) return onOwnStream(task, options);
  const pending = enqueueOn(stream, task);
  try {
    await stream.synchronize({ signal: options.signal, timeoutMs: options.timeoutMs });
  } catch (error) {
    // Discarded later, because the stream may still have to run the reduction.
    stream.afterIdle(() => pending.discard());
    throw error;
  }
  return pending.result();
}

/** WHY: error texts are built only on failure. Building one takes longer than a small operation. */
function checkTask(
  verb: string,
  first: DeviceArray,
  second: DeviceArray | undefined,
  options: OperationOptions,
): void {
  const { stream, signal, timeoutMs } = options;
  if (signal !== undefined || timeoutMs !== undefined) {
    new Deadline(`${verb} "${first.buffer.label}"`, options, Number.POSITIVE_INFINITY).check();
  }
  checkWithoutGaps(verb, first, first);
  if (second !== undefined) {
    checkWithoutGaps(verb, first, second);
    if (second.device !== first.device) {
      const found = `"${second.buffer.label}" was opened on another device`;
      throw new TypeError(`Cannot ${verb} "${first.buffer.label}": ${found}; use copyFrom`);
    }
  }
  if (stream !== undefined && stream.device !== first.device) {
    const found = `the stream is of ${stream.device.name}, opened as another Device object`;
    throw new TypeError(`Cannot ${verb} "${first.buffer.label}": ${found}`);
  }
}

function checkWithoutGaps(verb: string, first: DeviceArray, array: DeviceArray): void {
  if (array.isContiguous) return;
  const found = `the elements of "${array.buffer.label}" are not contiguous`;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot ${verb} "${first.buffer.label}": ${found}; use read() and write(), or an array ` +
      "without gaps",
  );
}

function enqueueOn<Result>(
  stream: Stream,
  { uses, enqueue }: Task<Result>,
): PendingReduction<Result> {
  const { handle } = stream;
  const pointers = uses.map(({ array, intent }) => pointerOn(stream, array, intent));
  return enqueue(stream.device.driver, handle, pointers);
}

/**
 * Returns the array's address for work enqueued now. The stream holds the memory until it is done.
 */
function pointerOn(
  stream: Stream,
  { buffer, layout }: DeviceArray,
  intent: Use["intent"],
): DevicePointer {
  return buffer.enqueue(intent, stream, itself).pointerAt(layout.byteOffset);
}

const itself = (mapped: MappedMemory): MappedMemory => mapped;

/** Finishes work that has begun; that takes about as long as reading the memory once. */
async function onOwnStream<Result>(task: Task<Result>, options: WaitOptions): Promise<Result> {
  const pointers: DevicePointer[] = [];
  const useFrom = async (index: number): Promise<Result> => {
    const use = task.uses[index];
    if (use === undefined) return finish(task, pointers);
    const { array, intent } = use;
    return array.buffer.use(intent, options, (mapped) => {
      pointers.push(mapped.pointerAt(array.layout.byteOffset));
      return useFrom(index + 1);
    });
  };
  return useFrom(0);
}

async function finish<Result>(
  { uses, enqueue }: Task<Result>,
  pointers: readonly DevicePointer[],
): Promise<Result> {
  const { driver, ordinal } = uses[0].array.device;
  const stream = driver.createStream(ordinal);
  try {
    const pending = enqueue(driver, stream, pointers);
    try {
      await waitUntil(() => driver.isIdle(stream), UNLIMITED);
      return pending.result();
    } finally {
      pending.discard();
    }
  } finally {
    driver.destroyStream(stream);
  }
}

/** @throws TypeError for another dtype, RangeError for another number of elements */
export function checkAlike(verb: string, one: DeviceArray, other: DeviceArray): void {
  if (one.dtype === other.dtype && one.elementCount === other.elementCount) return;
  const attempt = `Cannot ${verb} "${one.buffer.label}" and "${other.buffer.label}"`;
  if (one.dtype !== other.dtype)
    throw new TypeError(`${attempt}: one is ${one.dtype}, the other ${other.dtype}`);
  throw new RangeError(
    `${attempt}: one has ${one.elementCount} elements, the other ${other.elementCount}`,
  );
}
