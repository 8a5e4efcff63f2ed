/** What a process does before it becomes a hub, and nothing else. */
import { setFlagsFromString } from "node:v8";

export function prepareHubProcess(): void {
  // WHY: the socket and its lock are made for this user alone.
  process.umask(0o077);
  // WHY: V8 lets the space of young objects grow to 16 MiB, and one that is attacked was cleared for up to 16 ms, in which nobody is served.
  setFlagsFromString("--semi-space-growth-factor=1");
}
