/**
 * Opens files for reading, and reads known parts of them. Opening never waits, also if the path is
 * a pipe.
 */
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { fileSystemError, invalidFile } from "./file-errors.js";

/**
 * Opens an ordinary file for reading. The caller closes it. A folder fails at its first read.
 * @param fileName for messages
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; `INVALID_FILE` for pipes, sockets and
 * devices
 */
export async function openSourceFile(path: string, fileName = path): Promise<FileHandle> {
  try {
    // WHY before it is opened: opening a device can have side effects.
    refuseSpecial(await stat(path), fileName);
    // WHY non-blocking: opening a named pipe that appeared meanwhile would wait for a writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const facts = await file.stat();
      refuseSpecial(facts, fileName);
      if (facts.isFile() && facts.size === 0) await refuseHiddenContent(file, fileName);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
}

function refuseSpecial(facts: Stats, path: string): void {
  if (facts.isFile() || facts.isDirectory()) return;
  throw invalidFile(path, `its size cannot be known: it is ${kindOf(facts)}, not an ordinary file`);
}

function kindOf(facts: Stats): string {
  if (facts.isFIFO()) return "a named pipe";
  if (facts.isSocket()) return "a socket";
  return "a device";
}

/** Files of /proc claim to be empty, whatever they contain. */
async function refuseHiddenContent(file: FileHandle, path: string): Promise<void> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, 0);
  if (bytesRead > 0)
    throw invalidFile(path, "its size cannot be known: it says 0 bytes, but has content");
}

/** The name and size of a file. */
export interface FileFacts {
  /** For messages. */
  readonly fileName: string;
  /** Of the whole file. */
  readonly byteLength: number;
}

/** The current size of the file. The caller keeps the handle. */
export async function fileByteLength(file: FileHandle, fileName: string): Promise<number> {
  try {
    return (await file.stat()).size;
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
}

export interface FilePiece {
  /** For messages. */
  readonly fileName: string;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * Reads at most `byteLength` bytes from `byteOffset`; fewer only at the end of the file. Does not
 * move its position.
 */
export async function readPiece(
  file: FileHandle,
  { fileName, byteOffset, byteLength }: FilePiece,
): Promise<Uint8Array> {
  const piece = new Uint8Array(byteLength);
  let filled = 0;
  try {
    while (filled < byteLength) {
      const { bytesRead } = await file.read(
        piece,
        filled,
        byteLength - filled,
        byteOffset + filled,
      );
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
  return piece.subarray(0, filled);
}
