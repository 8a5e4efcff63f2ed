/**
 * Which format a file has, by what it begins with, else by the end of its name.
 */
import type { FileHandle } from "node:fs/promises";
import { limits } from "../base/limits.js";
import { fileByteLength, readPiece } from "./file-piece.js";
import { npyMagic } from "./npy-header.js";
import { safetensorsPrefixBytes } from "./safetensors-header.js";
import { openSourceFile } from "./source-file.js";

export const fileFormats = ["npy", "safetensors", "raw"] as const;

export type FileFormat = (typeof fileFormats)[number];

/**
 * The format of the file at the path; "raw" is bytes of no known format. The content is believed before the name;
 * a name that promises a format which the content is not gives that format, so that its reader says what is wrong.
 * @throws SystemError `INVALID_FILE` when there is no such file, `PERMISSION_DENIED`, `SYSTEM_ERROR`
 */
export async function detectFileFormat(path: string): Promise<FileFormat> {
  const file = await openSourceFile(path);
  try {
    return await formatOfFile(file, path);
  } finally {
    await file.close();
  }
}

/** As `detectFileFormat`, of a file that is open. The handle stays with the caller. */
export async function formatOfFile(file: FileHandle, path: string): Promise<FileFormat> {
  const byteLength = await fileByteLength(file, path);
  const start = await readPiece(file, { fileName: path, byteOffset: 0, byteLength: safetensorsPrefixBytes + 2 });
  return formatByContent(start, byteLength) ?? formatByName(path);
}

/** The format that a name promises: for a file that is to be written. */
export function formatByName(path: string): FileFormat {
  const name = path.toLowerCase();
  if (name.endsWith(".npy")) return "npy";
  if (name.endsWith(".safetensors")) return "safetensors";
  return "raw";
}

function formatByContent(start: Uint8Array, byteLength: number): FileFormat | undefined {
  if (npyMagic.every((byte, i) => start[i] === byte)) return "npy";
  if (start.byteLength < safetensorsPrefixBytes + 2) return undefined;
  const textBytes = new DataView(start.buffer, start.byteOffset).getBigUint64(0, true);
  const plausible = textBytes <= Math.min(limits.safetensorsHeaderBytesMax, byteLength - safetensorsPrefixBytes);
  const [first, second] = String.fromCharCode(...start.subarray(safetensorsPrefixBytes));
  return plausible && first === "{" && (second === '"' || second === "}") ? "safetensors" : undefined;
}
