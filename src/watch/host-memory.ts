/** How much memory the host has, and how much of it is used. */
import { readFileSync } from "node:fs";

export interface MemoryUse {
  readonly totalBytes: number;
  readonly usedBytes: number;
}

/** Undefined if /proc does not tell. */
export function hostMemory(path = "/proc/meminfo"): MemoryUse | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
  const [total, available] = ["MemTotal", "MemAvailable"].map((field) => {
    const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
    return found === undefined ? undefined : Number(found) * 1024;
  });
  if (total === undefined || available === undefined) return undefined;
  return { totalBytes: total, usedBytes: Math.max(0, total - available) };
}
