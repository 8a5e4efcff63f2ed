/** Detects the format of a file by its first bytes, or else by its name. */
import type { FileHandle } from "node:fs/promises";
import { limits } from "../base/limits.js";
import { npyMagic } from "./npy-header.js";
import { safetensorsPrefixBytes } from "./safetensors-header.js";
import { fileByteLength, openSourceFile, readPiece } from "./source-file.js";

export const fileFormats = ["npy", "safetensors", "raw"] as const;

export type FileFormat = (typeof fileFormats)[number];

/**
 * The format of the file at the path; "raw" means no known format. The content decides first. If
 * only the name says a format, that format is returned, and its reader reports the error.
 * @throws SystemError `INVALID_FILE` if the file does not exist, `PERMISSION_DENIED`,
 * `SYSTEM_ERROR`
 */
export async function detectFileFormat(path: string): Promise<FileFormat> {
  const file = await openSourceFile(path);
  try {
    return await formatOfFile(file, path);
  } finally {
    await file.close();
  }
}

/** Like `detectFileFormat`, for an open file. The caller keeps the handle. */
export async function formatOfFile(file: FileHandle, path: string): Promise<FileFormat> {
  const byteLength = await fileByteLength(file, path);
  const start = await readPiece(file, {
    fileName: path,
    byteOffset: 0,
    byteLength: safetensorsPrefixBytes + 2,
  });
  return formatByContent(start, byteLength) ?? formatByName(path);
}

/** The format of a file that is to be written, by its name. */
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
  const plausible =
    textBytes <= Math.min(limits.safetensorsHeaderBytesMax, byteLength - safetensorsPrefixBytes);
  const [first, second] = String.fromCharCode(...start.subarray(safetensorsPrefixBytes));
  return plausible && first === "{" && (second === '"' || second === "}")
    ? "safetensors"
    : undefined;
}
