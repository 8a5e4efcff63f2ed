/** Asks the hub which process a worker is. */
import { defaults } from "../base/limits.js";
import type { Hub } from "../client/hub.js";

/**
 * @param replies the name of the worker's reply channel
 * @returns undefined if the hub does not answer at once
 */
export async function processOf(hub: Hub, replies: string): Promise<string | undefined> {
  try {
    const { holders } = await hub.inspect(replies, { timeoutMs: defaults.explanationMs });
    const worker = holders.find(({ access }) => access === "owner");
    return worker === undefined ? undefined : `process ${worker.pid}, ${worker.program}`;
  } catch {
    // This only adds detail to another error.
    return undefined;
  }
}
