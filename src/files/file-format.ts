/** Detects the format of a file by its first bytes, or else by its name. */
import type { FileHandle } from "node:fs/promises";
import { limits } from "../base/limits.js";
import { foreignStartBytes, refuseForeignFormat } from "./foreign-formats.js";
import { npyMagic } from "./npy-header.js";
import { safetensorsPrefixBytes } from "./safetensors-header.js";
import { fileByteLength, openSourceFile, readPiece } from "./source-file.js";

export const fileFormats = ["npy", "safetensors", "raw"] as const;

export type FileFormat = (typeof fileFormats)[number];

/** How to recognise each format but raw: by the end of its name, or by the start of its content. */
const marks: Readonly<Record<Exclude<FileFormat, "raw">, FormatMarks>> = {
  npy: {
    ending: ".npy",
    begins: (start) => npyMagic.every((byte, i) => start[i] === byte),
  },
  safetensors: { ending: ".safetensors", begins: beginsAsSafetensors },
};

/** How a program, and a command, ask for raw bytes. */
const rawByFormat = '`format: "raw"` (in commands: --format raw)';

interface FormatMarks {
  readonly ending: string;
  /** @param byteLength of the file */
  readonly begins: (start: Uint8Array, byteLength: number) => boolean;
}

/**
 * The format of the file at the path; "raw" means no known format. The content decides first. If
 * only the name says a format, that format is returned, and its reader reports the error.
 * @param rawBy how the caller asks for raw bytes, for the error about an archive or a pickle
 * @throws SystemError `INVALID_FILE` if the file does not exist, `PERMISSION_DENIED`,
 * `SYSTEM_ERROR`; INVALID_FILE for an index, an archive, a pickle or a GGUF model
 */
export async function detectFileFormat(path: string, rawBy = rawByFormat): Promise<FileFormat> {
  const file = await openSourceFile(path);
  try {
    return await formatOfFile(file, path, rawBy);
  } finally {
    await file.close();
  }
}

/** Like `detectFileFormat`, for an open file. The caller keeps the handle. */
export async function formatOfFile(
  file: FileHandle,
  path: string,
  rawBy = rawByFormat,
): Promise<FileFormat> {
  const byteLength = await fileByteLength(file, path);
  const start = await readPiece(file, {
    fileName: path,
    byteOffset: 0,
    byteLength: Math.max(safetensorsPrefixBytes + 2, foreignStartBytes),
  });
  const format = firstFormat(({ begins }) => begins(start, byteLength)) ?? formatByName(path);
  if (format === "raw") refuseForeignFormat(path, start, rawBy);
  return format;
}

/** The format of a file that is to be written, by its name. */
export function formatByName(path: string): FileFormat {
  const name = path.toLowerCase();
  return firstFormat(({ ending }) => name.endsWith(ending)) ?? "raw";
}

function firstFormat(matches: (marks: FormatMarks) => boolean): FileFormat | undefined {
  return fileFormats.find((format) => format !== "raw" && matches(marks[format]));
}

function beginsAsSafetensors(start: Uint8Array, byteLength: number): boolean {
  if (start.byteLength < safetensorsPrefixBytes + 2) return false;
  const textBytes = new DataView(start.buffer, start.byteOffset).getBigUint64(0, true);
  const plausible =
    textBytes <= Math.min(limits.safetensorsHeaderBytesMax, byteLength - safetensorsPrefixBytes);
  const [first, second] = String.fromCharCode(...start.subarray(safetensorsPrefixBytes));
  return plausible && first === "{" && (second === '"' || second === "}");
}
