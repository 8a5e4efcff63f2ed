/**
 * Copies between arrays of one process: on one device, between GPUs (directly where they reach each other, by way of the host where
 * they do not: the driver does it), and between a GPU and the host device.
 */
import { isContiguous } from "../array/layout.js";
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { DeviceArray } from "./device-array.js";
import type { DeviceBuffer } from "./device-buffer.js";
import type { Stream } from "./stream.js";
import { download, upload } from "./transfer.js";

/**
 * Enqueues a copy on a stream of either device. Neither array changes shape; both are contiguous and of one dtype and size.
 * @throws READ_ONLY, TypeError for arrays that do not match, UNSUPPORTED between a GPU and the host device
 */
export function enqueueCopy(stream: Stream, to: DeviceArray, from: DeviceArray): void {
  checkMatch(to, from);
  enqueueBytes(stream, endOf(to), endOf(from), to.byteLength);
}

/** Copies all bytes of a buffer into one that is as long, both on GPUs, and waits until it is done. */
export async function copyBuffer(to: DeviceBuffer, from: DeviceBuffer): Promise<void> {
  using stream = to.device.createStream();
  enqueueBytes(stream, { buffer: to, byteOffset: 0 }, { buffer: from, byteOffset: 0 }, from.byteLength);
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
    throw new CudaIpcError("UNSUPPORTED", `Cannot enqueue a copy to "${to.buffer.label}": ${found}; use copyFrom`);
  }
  from.buffer.enqueue("read", stream, (source) => {
    to.buffer.enqueue("write", stream, (target) => {
      const [toPointer, fromPointer] = [target.pointerAt(to.byteOffset), source.pointerAt(from.byteOffset)];
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
 * Copies all elements and waits until it is done. A copy that was begun is finished, also when the wait is given up.
 * @throws as `enqueueCopy`, TIMEOUT, ABORTED
 */
export async function copyArray(to: DeviceArray, from: DeviceArray, options: WaitOptions = {}): Promise<void> {
  checkMatch(to, from);
  const [toOffset, fromOffset] = [to.layout.byteOffset, from.layout.byteOffset];
  await from.buffer.use("read", options, (source, deadline) =>
    to.buffer.use("write", options, async (target) => {
      if (from.device.cpuVisible) {
        await upload(target, toOffset, source.window(from.buffer.label, fromOffset, from.byteLength), deadline);
      } else if (to.device.cpuVisible) {
        await download(source, fromOffset, target.window(to.buffer.label, toOffset, to.byteLength), deadline);
      } else {
        using stream = to.device.createStream();
        enqueueCopy(stream, to, from);
        await stream.synchronize();
      }
    }),
  );
}

function checkMatch(to: DeviceArray, from: DeviceArray): void {
  const attempt = `Copy from "${from.buffer.label}" to "${to.buffer.label}"`;
  if (to.dtype !== from.dtype) throw new TypeError(`${attempt}: one is ${from.dtype}, the other ${to.dtype}`);
  if (to.elementCount !== from.elementCount) {
    throw new RangeError(`${attempt}: one has ${from.elementCount} elements, the other ${to.elementCount}`);
  }
  if (!isContiguous(to.layout) || !isContiguous(from.layout)) {
    throw new CudaIpcError("UNSUPPORTED", `${attempt}: both must be contiguous; use read() and write()`);
  }
}
