/**
 * Copies between arrays of one process: on one device, between GPUs, and between a GPU and the host
 * device. Between GPUs the driver copies directly if they have peer access, else through the host.
 */
import { isContiguous } from "../../array/layout.js";
import type { WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { optionsOf } from "../../base/option-checks.js";
import { checkArray } from "../check-arguments.js";
import type { DeviceBuffer } from "../memory/device-buffer.js";
import { operationChecks } from "../option-checks.js";
import type { Stream } from "../order/stream.js";
import { download, upload } from "../transfer/byte-transfer.js";
import type { OperationOptions } from "./array-operations.js";
import type { DeviceArray } from "./device-array.js";

export const checkCopy = optionsOf<OperationOptions>("copyFrom()", operationChecks);

/**
 * Enqueues a copy on a stream of either device. Both arrays must be contiguous and have the same
 * dtype and element count; their shapes may differ.
 * @throws READ_ONLY, TypeError or RangeError for arrays that do not match, UNSUPPORTED for an array
 * with gaps, and between a GPU and the host device
 */
export function enqueueCopy(stream: Stream, to: DeviceArray, from: DeviceArray): void {
  checkMatch(to, from);
  enqueueBytes(stream, endOf(to), endOf(from), to.byteLength);
}

/** Copies a buffer into one of the same length, both on GPUs, and waits until it is done. */
export async function copyBuffer(to: DeviceBuffer, from: DeviceBuffer): Promise<void> {
  using stream = to.device.createStream();
  enqueueBytes(
    stream,
    { buffer: to, byteOffset: 0 },
    { buffer: from, byteOffset: 0 },
    from.byteLength,
  );
  await stream.synchronize();
}

interface End {
  readonly buffer: DeviceBuffer;
  readonly byteOffset: number;
}

function endOf({ buffer, layout }: DeviceArray): End {
  return { buffer, byteOffset: layout.byteOffset };
}

function enqueueBytes(stream: Stream, to: End, from: End, byteLength: number): void {
  const [toDevice, fromDevice] = [to.buffer.device, from.buffer.device];
  if (!toDevice.isSameKindAs(fromDevice.reference)) {
    const found = `${fromDevice.name} and ${toDevice.name} are not devices of one driver`;
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot enqueue a copy to "${to.buffer.label}": ${found}; use copyFrom`,
    );
  }
  from.buffer.enqueue("read", stream, (source) => {
    to.buffer.enqueue("write", stream, (target) => {
      const [toPointer, fromPointer] = [
        target.pointerAt(to.byteOffset),
        source.pointerAt(from.byteOffset),
      ];
      const { driver } = stream.device;
      if (toDevice.ordinal === fromDevice.ordinal) {
        driver.copyOnDevice(stream.handle, toPointer, fromPointer, byteLength);
        return;
      }
      const toEnd = { ordinal: toDevice.ordinal, pointer: toPointer };
      const fromEnd = { ordinal: fromDevice.ordinal, pointer: fromPointer };
      driver.copyBetweenDevices(stream.handle, toEnd, fromEnd, byteLength);
    });
  });
}

/**
 * Copies all elements and waits until it is done. A copy that has begun is finished even after a
 * timeout or an abort.
 * @throws as `enqueueCopy`, TIMEOUT, ABORTED
 */
export async function copyArray(
  to: DeviceArray,
  from: DeviceArray,
  options: WaitOptions = {},
): Promise<void> {
  checkMatch(to, from);
  const [toOffset, fromOffset] = [to.layout.byteOffset, from.layout.byteOffset];
  await from.buffer.use("read", options, (source, deadline) =>
    to.buffer.use("write", options, async (target) => {
      if (from.device.cpuVisible) {
        await upload(
          target,
          toOffset,
          source.window(from.buffer.label, fromOffset, from.byteLength),
          deadline,
        );
      } else if (to.device.cpuVisible) {
        await download(
          source,
          fromOffset,
          target.window(to.buffer.label, toOffset, to.byteLength),
          deadline,
        );
      } else {
        using stream = to.device.createStream();
        enqueueCopy(stream, to, from);
        await stream.synchronize();
      }
    }),
  );
}

function checkMatch(to: DeviceArray, from: DeviceArray): void {
  checkArray("from", from);
  const attempt = `Cannot copy "${from.buffer.label}" to "${to.buffer.label}"`;
  if (to.dtype !== from.dtype)
    throw new TypeError(`${attempt}: one is ${from.dtype}, the other ${to.dtype}`);
  if (to.elementCount !== from.elementCount) {
    throw new RangeError(
      `${attempt}: one has ${from.elementCount} elements, the other ${to.elementCount}`,
    );
  }
  if (!isContiguous(to.layout) || !isContiguous(from.layout)) {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `${attempt}: both must be contiguous; use read() and write()`,
    );
  }
}
