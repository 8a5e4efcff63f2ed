/** The file, or standard input, that a command reads. */
import { stat } from "node:fs/promises";
import { fileSystemError } from "../files/file-errors.js";
import { UsageError } from "./error-report.js";

/**
 * Refuses a path at which no ordinary file lies.
 * @throws SystemError `INVALID_FILE`, `PERMISSION_DENIED`; UsageError for "-", pipes and devices
 */
export async function checkInputPath(path: string): Promise<void> {
  refuseDash(path);
  try {
    const facts = await stat(path);
    if (facts.isFile() || facts.isDirectory()) return;
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
  throw new UsageError(`${path} is not an ordinary file: its size cannot be known`);
}

export function refuseDash(path: string): void {
  if (path === "-") throw new UsageError('"-" (standard input or output) is not supported: name a file');
}
