/** Opening the file that a command was told to read. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { fileSystemError } from "../files/file-errors.js";
import { UsageError } from "./error-report.js";

/**
 * A file, open for reading; the caller closes it.
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; UsageError for pipes and devices
 */
export async function openInputFile(path: string): Promise<FileHandle> {
  refuseDash(path);
  try {
    // WHY asked before it is opened: opening a named pipe waits until somebody writes to it.
    const facts = await stat(path);
    if (!facts.isFile() && !facts.isDirectory()) {
      throw new UsageError(`${path} is not an ordinary file: its size cannot be known`);
    }
    // A folder is refused in the system's own words at its first read.
    return await open(path, "r");
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

export function refuseDash(path: string): void {
  if (path === "-") throw new UsageError('"-" (standard input or output) is not supported: name a file');
}
