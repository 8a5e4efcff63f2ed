/** Reading a known piece of an open file, whole or as much as there is. */
import type { FileHandle } from "node:fs/promises";
import { fileSystemError } from "./file-errors.js";

/** What must be known about a file besides its bytes. */
export interface FileFacts {
  /** For messages. */
  readonly fileName: string;
  /** Of the whole file. */
  readonly byteLength: number;
}

/** Bytes in the file now. The handle stays with the caller. */
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

/** The bytes from `byteOffset` on, at most `byteLength`; fewer only where the file ends. Does not move its position. */
export async function readPiece(
  file: FileHandle,
  { fileName, byteOffset, byteLength }: FilePiece,
): Promise<Uint8Array> {
  const piece = new Uint8Array(byteLength);
  let filled = 0;
  try {
    while (filled < byteLength) {
      const { bytesRead } = await file.read(piece, filled, byteLength - filled, byteOffset + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
  return piece.subarray(0, filled);
}
