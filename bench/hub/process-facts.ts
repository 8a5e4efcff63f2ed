/**
 * Reads memory, CPU time and descriptors of a process from /proc. Throws if the process has ended.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";

const KiB = 1024;

/** Resident memory, including shared pages. */
export function residentBytes(pid: number): number {
  return fieldBytes(`/proc/${pid}/status`, "VmRSS");
}

/** Resident memory, in which a shared page counts proportionally. */
export function proportionalBytes(pid: number): number {
  return fieldBytes(`/proc/${pid}/smaps_rollup`, "Pss");
}

/** Memory of tmpfs and memory files of the whole machine. */
export function sharedMemoryBytes(): number {
  return fieldBytes("/proc/meminfo", "Shmem");
}

/** CPU time of all its threads. WHY not /proc/PID/stat: its ticks are 10 ms each. */
export function cpuMs(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    nanoseconds += Number(
      readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0],
    );
  }
  return nanoseconds / 1e6;
}

export function fdCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/**
 * The number of descriptors of each kind: `socket`, `pipe`, `memfd`, `anon_inode:[pidfd]`, or a
 * path.
 */
export function fdKinds(pid: number): Record<string, number> {
  const kinds: Record<string, number> = {};
  const folder = `/proc/${pid}/fd`;
  for (const fd of readdirSync(folder)) {
    const target = targetOf(`${folder}/${fd}`);
    const kind =
      /^(socket|pipe):|^\/(memfd):/
        .exec(target)
        ?.slice(1)
        .find((name) => name !== undefined) ?? target;
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
  return kinds;
}

/** The number of descriptors of memory files. */
export function memoryFileCount(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => targetOf(`${folder}/${fd}`).startsWith("/memfd:"))
    .length;
}

/** The memory that the process's memory files occupy, each file counted once. */
export function memoryFileBytes(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  const fds = readdirSync(folder).filter((fd) => targetOf(`${folder}/${fd}`).startsWith("/memfd:"));
  const byInode = new Map<number, number>();
  for (const fd of fds) {
    const stats = statSync(`${folder}/${fd}`, { throwIfNoEntry: false });
    if (stats !== undefined) byInode.set(stats.ino, stats.blocks * 512);
  }
  return [...byInode.values()].reduce((sum, bytes) => sum + bytes, 0);
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    // Closed since the folder was read.
    return "";
  }
}

function fieldBytes(path: string, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync(path, "utf8"))?.[1];
  if (found === undefined) throw new Error(`${path} has no ${field}`);
  return Number(found) * KiB;
}
