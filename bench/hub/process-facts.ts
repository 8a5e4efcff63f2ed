/** What Linux says of a process in /proc: memory, CPU time, descriptors. Of a process that has ended there is nothing to say: these throw. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const KiB = 1024;

/** All pages that it has mapped and that are in memory, those of others included. */
export function residentBytes(pid: number): number {
  return fieldBytes(`/proc/${pid}/status`, "VmRSS");
}

/** The same, where a page that several processes have counts for each by its share. */
export function proportionalBytes(pid: number): number {
  return fieldBytes(`/proc/${pid}/smaps_rollup`, "Pss");
}

/** Memory of files without a disk (memory files among them) in the whole machine. */
export function sharedMemoryBytes(): number {
  return fieldBytes("/proc/meminfo", "Shmem");
}

/** CPU time of all its threads so far. WHY not the ticks of /proc/PID/stat: they are 10 ms each. */
export function cpuMs(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    nanoseconds += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  }
  return nanoseconds / 1e6;
}

export function fdCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** How many of its descriptors are of memory files. */
export function memoryFileCount(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => targetOf(`${folder}/${fd}`).startsWith("/memfd:")).length;
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
