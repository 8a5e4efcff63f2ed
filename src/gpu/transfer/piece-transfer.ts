/**
 * One piece of a buffer at a time, of at most `limits.stagingBytes`: for transfers whose other end
 * decides the order. Host memory is used in place, GPU memory through a lane's pinned memory.
 */
import { checkInteger, checkRange } from "../../base/bytes.js";
import type { WaitOptions } from "../../base/deadline.js";
import { limits } from "../../base/limits.js";
import type { DeviceBuffer } from "../memory/device-buffer.js";

/** Lets `take` read a piece at an address, which is valid until it settles. */
export async function takePiece(
  buffer: DeviceBuffer,
  byteOffset: number,
  byteLength: number,
  take: (address: bigint) => Promise<void>,
  options: WaitOptions = {},
): Promise<void> {
  checkPiece(buffer, byteOffset, byteLength);
  await buffer.use("read", options, (memory, deadline) =>
    memory.device.lanes.forEachPiece(byteLength, deadline, (lane, piece) =>
      lane.downloadAt(memory.pointerAt(byteOffset), piece.byteLength, take),
    ),
  );
}

/** Lets `fill` write a piece at an address, which is valid until it settles. */
export async function fillPiece(
  buffer: DeviceBuffer,
  byteOffset: number,
  byteLength: number,
  fill: (address: bigint) => Promise<void>,
  options: WaitOptions = {},
): Promise<void> {
  checkPiece(buffer, byteOffset, byteLength);
  await buffer.use("write", options, (memory, deadline) =>
    memory.device.lanes.forEachPiece(byteLength, deadline, (lane, piece) =>
      lane.uploadAt(memory.pointerAt(byteOffset), piece.byteLength, fill),
    ),
  );
}

function checkPiece(buffer: DeviceBuffer, byteOffset: number, byteLength: number): void {
  checkInteger("byteLength", byteLength, 1, limits.stagingBytes);
  checkRange(`Piece of "${buffer.label}"`, byteOffset, byteLength, buffer.byteLength);
}
