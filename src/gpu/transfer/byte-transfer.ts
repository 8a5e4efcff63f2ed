/** Copies bytes between this process and mapped memory, in pieces, through the device's lanes. */
import type { Deadline } from "../../base/deadline.js";
import type { MappedMemory } from "../memory/mapped-memory.js";

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
