/** What to say of a hub that has not answered in time. */
import { processState } from "../os/process-state.js";

/** @param pid as the kernel says of the socket; 0 for a process of another PID namespace */
export function hubSilence(pid: number): string {
  const state = pid === 0 ? undefined : processState(pid);
  // WHY without its number: the socket may be one that an earlier hub listened at.
  if (state === undefined) return "the hub does not answer";
  return `the hub (process ${pid}) does not answer: it ${state}`;
}
