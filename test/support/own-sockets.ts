/**
 * The sockets of this process, and a way to cut them as a system fault would, without a reason for
 * either side.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { koffi } from "../../src/ffi/koffi.js";

const SHUT_RDWR = 2;

/** Their numbers. */
export function ownSockets(): ReadonlySet<number> {
  const sockets = readdirSync("/proc/self/fd").map(Number).filter(isSocket);
  return new Set(sockets);
}

/** Cuts those that were opened since. */
export function cutSocketsSince(before: ReadonlySet<number>): number {
  const shutdown = koffi().load(null).func("shutdown", "int", ["int", "int"]);
  const cut = [...ownSockets()].filter((fd) => !before.has(fd));
  for (const fd of cut) shutdown(fd, SHUT_RDWR);
  return cut.length;
}

function isSocket(fd: number): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:");
  } catch {
    // The descriptor of the folder itself, closed again by now.
    return false;
  }
}
