/** Opening the file that a command was told to read. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { CudaIpcError } from "../base/errors.js";
import { fileSystemError } from "../files/file-errors.js";
import { UsageError } from "./error-report.js";

/**
 * An ordinary file, open for reading; the caller closes it.
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; INVALID_FILE for folders, pipes and devices, whose size nobody knows
 */
export async function openInputFile(path: string): Promise<FileHandle> {
  refuseDash(path);
  try {
    // WHY asked before it is opened: opening a named pipe waits until somebody writes to it.
    const facts = await stat(path);
    if (!facts.isFile()) {
      const found = facts.isDirectory() ? "it is a folder" : "it is not an ordinary file";
      throw new CudaIpcError("INVALID_FILE", `Cannot read ${JSON.stringify(path)}: ${found}`);
    }
    return await open(path, "r");
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

export function refuseDash(path: string): void {
  if (path === "-") throw new UsageError('"-" (standard input or output) is not supported: name a file');
}
