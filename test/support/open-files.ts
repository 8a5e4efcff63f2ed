/** Which files this process has open. */
import { readdirSync, readlinkSync } from "node:fs";
import type { OwnedFd } from "../../src/os/owned-fd.js";

/** Names an open file of this process, such as `socket:[4711]`, also after its number was reused. */
export function linkOf({ number }: OwnedFd): string {
  return readlinkSync(`/proc/self/fd/${number}`);
}

/** Whether this process has a file of this name open. */
export function isOpen(link: string): boolean {
  return readdirSync("/proc/self/fd").some((number) => {
    try {
      return readlinkSync(`/proc/self/fd/${number}`) === link;
    } catch {
      return false;
    }
  });
}
