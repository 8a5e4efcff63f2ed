/** Asks of one descriptor whether it is ready, or waits for that: only a process that does nothing else may wait. */
import { libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";

export const POLLIN = 1;
export const POLLOUT = 4;

/**
 * Whether something of these events is there, or the other side is gone. Also false after a signal.
 * @param timeoutMs 0 does not wait; -1 waits for as long as it takes
 */
export function pollFd(fd: OwnedFd, events: number, timeoutMs: number): boolean {
  const entry = new Uint8Array(new ArrayBuffer(8));
  const view = new DataView(entry.buffer);
  view.setInt32(0, fd.number, true);
  view.setInt16(4, events, true);
  return libc().poll(entry, 1, timeoutMs) > 0;
}
