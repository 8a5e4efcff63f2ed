/** How many files this process may have open at a time. https://man7.org/linux/man-pages/man5/proc_pid_limits.5.html */
import { readFileSync } from "node:fs";

/** `Infinity` where there is no limit, or none can be read. */
export function openFilesMax(): number {
  const max = Number(/^Max open files\s+(\d+)/m.exec(limitsOfProcess())?.[1]);
  return Number.isNaN(max) ? Number.POSITIVE_INFINITY : max;
}

function limitsOfProcess(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    // WHY no error: it is told at the first file that cannot be opened.
    return "";
  }
}
