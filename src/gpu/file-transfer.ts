/**
 * Bytes of a file into a buffer and back, without a detour through JavaScript's memory. Into host memory that was made here
 * the kernel copies by itself; to and from a GPU the thread pool reads into pinned memory while the GPU takes earlier pieces.
 */
import type { FileHandle } from "node:fs/promises";
import { checkRange } from "../base/bytes.js";
import type { Deadline, WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { sendFile } from "../os/send-file.js";
import { fromNodeError } from "../os/system-error.js";
import type { DeviceBuffer } from "./device-buffer.js";

export interface FileTransferOptions extends WaitOptions {
  /** Called now and then with the bytes that are done so far. */
  readonly onProgress?: ((doneBytes: number) => void) | undefined;
}

export interface FileSection {
  readonly file: FileHandle;
  /** For messages. */
  readonly fileName: string;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * Fills the buffer from `byteOffset` on with a section of a file.
 * @throws INVALID_FILE where the file ends early, READ_ONLY
 */
export async function readFileInto(
  buffer: DeviceBuffer,
  byteOffset: number,
  section: FileSection,
  options: FileTransferOptions = {},
): Promise<void> {
  checkRange(`Write to "${buffer.label}"`, byteOffset, section.byteLength, buffer.byteLength);
  await buffer.use("write", options, async (mapped, deadline) => {
    if (buffer.device.driver.memoryFiles && buffer.exportable) {
      await sendIntoMemoryFile(buffer, byteOffset, section, deadline, options.onProgress);
      return;
    }
    let done = 0;
    await buffer.device.lanes.forEachPiece(section.byteLength, deadline, async (lane, piece) => {
      const fill = (staging: Uint8Array) => readExactly(section, piece.byteOffset, staging);
      await lane.uploadFrom(mapped.pointerAt(byteOffset + piece.byteOffset), piece.byteLength, fill);
      done += piece.byteLength;
      options.onProgress?.(done);
    });
  });
}

/** Copies of a file into host memory that the kernel makes side by side: most of their time goes into clearing new pages. */
const PARALLEL_SENDS = 4;
const SEND_BYTES_MIN = 32 * 1024 * 1024;

async function sendIntoMemoryFile(
  buffer: DeviceBuffer,
  byteOffset: number,
  section: FileSection,
  deadline: Deadline,
  onProgress: FileTransferOptions["onProgress"],
): Promise<void> {
  using memory = buffer.exportFd();
  const count = Math.max(1, Math.min(PARALLEL_SENDS, Math.floor(section.byteLength / SEND_BYTES_MIN)));
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
    return sendFile(target, source, Math.min(partBytes, section.byteLength - start), { deadline, sourceName, onPiece });
  });
  // WHY all are waited for before the first failure is thrown: the descriptors are closed after this.
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
      await lane.downloadTo(mapped.pointerAt(byteOffset + piece.byteOffset), piece.byteLength, take);
      done += piece.byteLength;
      options.onProgress?.(done);
    });
  });
}

async function readExactly(section: FileSection, byteOffset: number, target: Uint8Array): Promise<void> {
  for (let done = 0; done < target.byteLength; ) {
    const position = section.byteOffset + byteOffset + done;
    const { bytesRead } = await attempt(`read ${section.fileName}`, () =>
      section.file.read(target, done, target.byteLength - done, position),
    );
    if (bytesRead === 0)
      throw new CudaIpcError("INVALID_FILE", `Cannot read ${section.fileName}: it ends at byte ${position}`);
    done += bytesRead;
  }
}

async function writeExactly(section: FileSection, byteOffset: number, source: Uint8Array): Promise<void> {
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
