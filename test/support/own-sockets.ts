/**
 * The sockets of this process, and a way to cut them as a system fault would: neither side learns a
 * reason.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { koffi } from "../../src/ffi/koffi.js";

const SHUT_RDWR = 2;

/** The descriptor numbers of the open sockets. */
export function ownSockets(): ReadonlySet<number> {
  const sockets = readdirSync("/proc/self/fd").map(Number).filter(isSocket);
  return new Set(sockets);
}

/** Cuts the sockets that were opened since. @returns how many */
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
    // This was the descriptor of the folder itself. It is closed by now.
    return false;
  }
}
