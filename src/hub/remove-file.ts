/** Removes a file that may be gone already. */
import { unlinkSync } from "node:fs";
import { fromNodeError } from "../os/system-error.js";

export function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT"))
      throw fromNodeError(`remove ${path}`, error);
  }
}
