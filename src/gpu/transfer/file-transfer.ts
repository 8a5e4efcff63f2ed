/**
 * Reads a file into a buffer and writes a buffer to a file, without copies in JavaScript's memory.
 * The kernel copies a file directly into host memory that this process allocated. For a GPU, the
 * thread pool reads into pinned memory while the GPU copies earlier pieces.
 */
import type { FileHandle } from "node:fs/promises";
import { checkRange } from "../../base/bytes.js";
import type { Deadline, WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { sendFile } from "../../os/send-file.js";
import { fromNodeError } from "../../os/system-error.js";
import type { DeviceBuffer } from "../memory/device-buffer.js";

export interface FileTransferOptions extends WaitOptions {
  /** Called now and then with the number of bytes transferred so far. */
  readonly onProgress?: ((doneBytes: number) => void) | undefined;
}

export interface FileSection {
  readonly file: FileHandle;
  /** For error messages. */
  readonly fileName: string;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * Fills the buffer from `byteOffset` on with a section of a file.
 * @throws INVALID_FILE if the file ends early, READ_ONLY
 */
export async function readFileInto(
  buffer: DeviceBuffer,
  byteOffset: number,
  section: FileSection,
  options: FileTransferOptions = {},
): Promise<void> {
  checkRange(`Write to "${buffer.label}"`, byteOffset, section.byteLength, buffer.byteLength);
  await buffer.use("write", options, async (mapped, deadline) => {
    using memoryFile = mapped.exportFile();
    if (memoryFile !== undefined) {
      await sendIntoMemoryFile(memoryFile, byteOffset, section, deadline, options.onProgress);
      return;
    }
    let done = 0;
    await buffer.device.lanes.forEachPiece(section.byteLength, deadline, async (lane, piece) => {
      const fill = (staging: Uint8Array) => readExactly(section, piece.byteOffset, staging);
      await lane.uploadFrom(
        mapped.pointerAt(byteOffset + piece.byteOffset),
        piece.byteLength,
        fill,
      );
      done += piece.byteLength;
      options.onProgress?.(done);
    });
  });
}

/** Parallel copies into host memory. Most of the time goes into clearing new pages. */
const PARALLEL_SENDS = 4;
const SEND_BYTES_MIN = 32 * 1024 * 1024;

async function sendIntoMemoryFile(
  memory: OwnedFd,
  byteOffset: number,
  section: FileSection,
  deadline: Deadline,
  onProgress: FileTransferOptions["onProgress"],
): Promise<void> {
  const count = Math.max(
    1,
    Math.min(PARALLEL_SENDS, Math.floor(section.byteLength / SEND_BYTES_MIN)),
  );
  const sourceName = section.fileName;
  const partBytes = Math.ceil(section.byteLength / count);
  let done = 0;
  const sends = Array.from({ length: count }, (_, index) => {
    const start = index * partBytes;
    const target = { fd: memory, byteOffset: byteOffset + start };
    const source = { fd: section.file.fd, byteOffset: section.byteOffset + start };
    const onPiece = (pieceBytes: number) => {
      done += pieceBytes;
      onProgress?.(done);
    };
    return sendFile(target, source, Math.min(partBytes, section.byteLength - start), {
      deadline,
      sourceName,
      onPiece,
    });
  });
  // All copies are waited for before an error is thrown, because the caller then closes the files.
  const outcomes = await Promise.allSettled(sends);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}

/**
 * Writes part of the buffer to a section of a file.
 * @throws DISK_FULL
 */
export async function writeFileFrom(
  buffer: DeviceBuffer,
  byteOffset: number,
  section: FileSection,
  options: FileTransferOptions = {},
): Promise<void> {
  checkRange(`Read of "${buffer.label}"`, byteOffset, section.byteLength, buffer.byteLength);
  await buffer.use("read", options, async (mapped, deadline) => {
    let done = 0;
    await buffer.device.lanes.forEachPiece(section.byteLength, deadline, async (lane, piece) => {
      const take = (staging: Uint8Array) => writeExactly(section, piece.byteOffset, staging);
      await lane.downloadTo(
        mapped.pointerAt(byteOffset + piece.byteOffset),
        piece.byteLength,
        take,
      );
      done += piece.byteLength;
      options.onProgress?.(done);
    });
  });
}

async function readExactly(
  section: FileSection,
  byteOffset: number,
  target: Uint8Array,
): Promise<void> {
  for (let done = 0; done < target.byteLength; ) {
    const position = section.byteOffset + byteOffset + done;
    const { bytesRead } = await attempt(`read ${section.fileName}`, () =>
      section.file.read(target, done, target.byteLength - done, position),
    );
    if (bytesRead === 0)
      throw new CudaIpcError(
        "INVALID_FILE",
        `Cannot read ${section.fileName}: it ends at byte ${position}`,
      );
    done += bytesRead;
  }
}

async function writeExactly(
  section: FileSection,
  byteOffset: number,
  source: Uint8Array,
): Promise<void> {
  for (let done = 0; done < source.byteLength; ) {
    const position = section.byteOffset + byteOffset + done;
    const { bytesWritten } = await attempt(`write ${section.fileName}`, () =>
      section.file.write(source, done, source.byteLength - done, position),
    );
    done += bytesWritten;
  }
}

async function attempt<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw fromNodeError(what, error);
  }
}
