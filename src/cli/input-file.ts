/** Opening the file that a command was told to read. */
import { type FileHandle, open, stat } from "node:fs/promises";
import { fileSystemError, invalidFile } from "../files/file-errors.js";
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
    const file = await open(path, "r");
    try {
      if (facts.isFile() && facts.size === 0) await refuseHiddenContent(file, path);
    } catch (error) {
      await file.close();
      throw error;
    }
    return file;
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

/** Files of /proc say that they are empty, whatever they hold. */
async function refuseHiddenContent(file: FileHandle, path: string): Promise<void> {
  const { bytesRead } = await file.read(new Uint8Array(1), 0, 1, 0);
  if (bytesRead > 0) throw invalidFile(path, "its size cannot be known: it says 0 bytes, but has content");
}

export function refuseDash(path: string): void {
  if (path === "-") throw new UsageError('"-" (standard input or output) is not supported: name a file');
}
