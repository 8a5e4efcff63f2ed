/**
 * Estimates how much memory this process can still get: what the kernel says is available, limited
 * by its control groups.
 *
 * WHY: a memory file gets its pages when they are first touched. If there are none left, SIGBUS or
 * the OOM killer ends the process, so creation checks first. It is an estimate: other processes
 * take memory too, and memory that was created but never touched is not counted. Taking the pages
 * (preallocate.ts) is exact. It is an option, because most programs never touch all of them.
 */
import { readFileSync } from "node:fs";
import { freemem } from "node:os";
import { posix } from "node:path";
import { CudaIpcError } from "../../base/errors.js";

const CGROUP_ROOT = "/sys/fs/cgroup";

/** The two versions of control groups: the folder of a group, and the names of its files. */
const versions = {
  v1: {
    root: `${CGROUP_ROOT}/memory`,
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
  },
  v2: { root: CGROUP_ROOT, limit: "memory.max", used: "memory.current" },
} as const;

/** Smaller sizes are not checked: a check takes about 0.25 ms and is less exact than this. */
const CAPACITY_CHECK_BYTES_MIN = 16 * 1024 * 1024;

/** @throws OUT_OF_MEMORY */
export function refuseOverCapacity(byteLength: number): void {
  const available = byteLength < CAPACITY_CHECK_BYTES_MIN ? byteLength : availableBytes();
  if (byteLength <= available) return;
  const found = `${available} bytes are available`;
  throw new CudaIpcError(
    "OUT_OF_MEMORY",
    `Cannot create ${byteLength} bytes of host memory: ${found}`,
  );
}

export function availableBytes(): number {
  return Math.min(availableOnMachine(), availableInGroups());
}

function availableOnMachine(): number {
  const match = /^MemAvailable:\s+(\d+) kB$/m.exec(readText("/proc/meminfo") ?? "");
  return match === null ? freemem() : Number(match[1]) * 1024;
}

function availableInGroups(): number {
  let available = Number.POSITIVE_INFINITY;
  for (const line of (readText("/proc/self/cgroup") ?? "").split("\n")) {
    const [, controllers, path] = line.split(":");
    if (controllers === undefined || path === undefined) continue;
    if (controllers === "") available = Math.min(available, availableInTree(versions.v2, path));
    if (controllers.split(",").includes("memory")) {
      available = Math.min(available, availableInTree(versions.v1, path));
    }
  }
  return available;
}

type Version = (typeof versions)[keyof typeof versions];

/**
 * The least that the group or one of its parents leaves. Goes up to the root, because inside a
 * container the path may be the host's, and only the root exists.
 */
function availableInTree(version: Version, path: string): number {
  let available = Number.POSITIVE_INFINITY;
  for (let group = posix.join("/", path); ; group = posix.dirname(group)) {
    available = Math.min(available, availableInGroup(version, posix.join(version.root, group)));
    if (group === "/") return available;
  }
}

function availableInGroup(version: Version, folder: string): number {
  const limit = Number(readText(posix.join(folder, version.limit)) ?? Number.NaN);
  const used = Number(readText(posix.join(folder, version.used)) ?? Number.NaN);
  // NaN: there is no such file, or it says `max` for no limit.
  if (Number.isNaN(limit) || Number.isNaN(used)) return Number.POSITIVE_INFINITY;
  return Math.max(
    0,
    limit - used + reclaimableBytes(readText(posix.join(folder, "memory.stat")) ?? ""),
  );
}

/** Pages of files on disk, which the kernel drops before it refuses memory. */
function reclaimableBytes(stat: string): number {
  let bytes = 0;
  for (const match of stat.matchAll(/^(?:inactive_file|active_file) (\d+)$/gm))
    bytes += Number(match[1]);
  return bytes;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // A limit that cannot be read is unknown, so it does not count.
    return undefined;
  }
}
