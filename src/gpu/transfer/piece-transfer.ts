/**
 * One piece of a buffer at a time, of at most `limits.stagingBytes`: for transfers whose other end
 * decides the order. Host memory is used in place, GPU memory through a lane's pinned memory, and
 * new host memory through memory of a lane.
 */
import { checkInteger, checkRange } from "../../base/bytes.js";
import type { WaitOptions } from "../../base/deadline.js";
import { limits } from "../../base/limits.js";
import { writeFilePartAsync } from "../../os/file-calls.js";
import { addressOf } from "../../os/host-memory.js";
import type { DeviceBuffer } from "../memory/device-buffer.js";
import type { MappedMemory } from "../memory/mapped-memory.js";

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

/**
 * As `fillPiece`, for memory that was just allocated. WHY: host memory gets its pages when it is
 * first used. To write a memory file takes half of the time of page faults, one for each 4 KiB.
 */
export async function fillNewPiece(
  buffer: DeviceBuffer,
  byteOffset: number,
  byteLength: number,
  fill: (address: bigint) => Promise<void>,
  options: WaitOptions = {},
): Promise<void> {
  checkPiece(buffer, byteOffset, byteLength);
  await buffer.use("write", options, async (memory, deadline) => {
    using file = memory.exportFile();
    await memory.device.lanes.forEachPiece(byteLength, deadline, async (lane) => {
      if (file === undefined) {
        await lane.uploadAt(memory.pointerAt(byteOffset), byteLength, fill);
        return;
      }
      const { bytes } = lane.staging();
      await fill(addressOf(bytes));
      await inTurn(memory, () =>
        writeFilePartAsync(file, bytes.subarray(0, byteLength), byteOffset),
      );
    });
  });
}

/** The last write to the file of a memory. */
const lastWrites = new WeakMap<MappedMemory, Promise<void>>();

/** WHY one write at a time: the kernel writes a file so anyway, and its waiters spin. */
function inTurn(memory: MappedMemory, write: () => Promise<void>): Promise<void> {
  const before = lastWrites.get(memory) ?? Promise.resolve();
  const written = before.then(write);
  lastWrites.set(
    memory,
    written.catch(() => {}),
  );
  return written;
}

function checkPiece(buffer: DeviceBuffer, byteOffset: number, byteLength: number): void {
  checkInteger("byteLength", byteLength, 1, limits.stagingBytes);
  checkRange(`Piece of "${buffer.label}"`, byteOffset, byteLength, buffer.byteLength);
}
