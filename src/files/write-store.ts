/** Writes a store plan into an open file. */
import type { FileHandle } from "node:fs/promises";
import type { Deadline } from "../base/deadline.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { writeFileFrom } from "../gpu/transfer/file-transfer.js";
import { readPieces } from "./array-pieces.js";
import type { StoreMove, StorePlan } from "./store-plan.js";

interface StoreTarget {
  readonly buffer: DeviceBuffer;
  readonly file: FileHandle;
  /** For messages. */
  readonly path: string;
  readonly deadline: Deadline;
}

/** @param onProgress called with the bytes of elements written so far */
export async function writeStore(
  target: StoreTarget,
  plan: StorePlan,
  onProgress: (doneBytes: number) => void,
): Promise<void> {
  await writeAll(target.file, plan.header, 0);
  let before = 0;
  for (const move of plan.moves) {
    before += await writeMove(target, move, (done) => onProgress(before + done));
  }
  target.deadline.check();
}

/** @returns the bytes written */
async function writeMove(
  { buffer, file, path, deadline }: StoreTarget,
  move: StoreMove,
  onProgress: (doneBytes: number) => void,
): Promise<number> {
  if (move.kind === "range") {
    const section = {
      file,
      fileName: path,
      byteOffset: move.fileByteOffset,
      byteLength: move.byteLength,
    };
    await writeFileFrom(buffer, move.memoryByteOffset, section, { ...deadline.rest(), onProgress });
    return move.byteLength;
  }
  let done = 0;
  for await (const piece of readPieces(move.array, deadline.rest())) {
    deadline.check();
    await writeAll(file, piece, move.fileByteOffset + done);
    done += piece.byteLength;
    onProgress(done);
  }
  return done;
}

async function writeAll(file: FileHandle, bytes: Uint8Array, byteOffset: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await file.write(
      bytes,
      done,
      bytes.byteLength - done,
      byteOffset + done,
    );
    done += bytesWritten;
  }
}
