/** Copies bytes between this process and mapped memory, in pieces, through the device's lanes. */
import type { Deadline } from "../../base/deadline.js";
import type { FillPattern } from "../../driver/gpu-driver.js";
import type { MappedMemory } from "../memory/mapped-memory.js";
import { waitUntil } from "../order/adaptive-wait.js";

/** Copies the bytes into the memory. They must not change until this resolves. */
export function upload(
  memory: MappedMemory,
  byteOffset: number,
  bytes: Uint8Array,
  deadline: Deadline,
): Promise<void> {
  return memory.device.lanes.forEachPiece(bytes.byteLength, deadline, (lane, piece) => {
    const part = bytes.subarray(piece.byteOffset, piece.byteOffset + piece.byteLength);
    return lane.upload(memory.pointerAt(byteOffset + piece.byteOffset), part);
  });
}

export function download(
  memory: MappedMemory,
  byteOffset: number,
  target: Uint8Array,
  deadline: Deadline,
): Promise<void> {
  return memory.device.lanes.forEachPiece(target.byteLength, deadline, (lane, piece) => {
    const part = target.subarray(piece.byteOffset, piece.byteOffset + piece.byteLength);
    return lane.download(memory.pointerAt(byteOffset + piece.byteOffset), part);
  });
}

/** Fills elements on the device. A fill that has begun runs to its end. */
export async function fillElements(
  memory: MappedMemory,
  byteOffset: number,
  pattern: FillPattern,
  count: number,
  deadline: Deadline,
): Promise<void> {
  const { driver, ordinal } = memory.device;
  const stream = driver.createStream(ordinal);
  try {
    driver.fill(stream, memory.pointerAt(byteOffset), pattern, count);
    await waitUntil(() => driver.isIdle(stream), deadline.unlimited());
  } finally {
    driver.destroyStream(stream);
  }
}
