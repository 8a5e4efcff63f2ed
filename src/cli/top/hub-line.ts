/** What `top` says about the hub: a line about it, and a line if something is wrong with it. */
import type { WatchedHub } from "../../watch/snapshot.js";
import { ageWords, plural } from "../terminal/words.js";

/** How long the next hub is announced. */
const ANNOUNCED_MS = 15_000;

export function hubWords({ status, socket }: WatchedHub, nowMs: number): string {
  if (status === undefined) return `no hub at ${socket}`;
  const { pid, startedAtMs, objects, clients, leases } = status;
  const counts = [plural(objects, "object"), plural(clients, "client"), plural(leases, "lease")];
  return `hub ${pid}, up ${ageWords(nowMs - startedAtMs)}, ${counts.join(", ")}`;
}

/** Undefined if all is well. */
export function hubTrouble(hub: WatchedHub, nowMs: number): string | undefined {
  const { answers, reason, sinceMs, successors, status } = hub;
  if (!answers) {
    const since = status === undefined ? "" : ` for ${ageWords(nowMs - sinceMs)}`;
    return `No hub answers${since}: ${reason}. Looking for the next one.`;
  }
  const started = status?.startedAtMs ?? 0;
  if (successors > 0 && nowMs - Math.max(started, sinceMs) < ANNOUNCED_MS)
    return `The hub ended. Process ${status?.pid} is the next one.`;
  return undefined;
}
