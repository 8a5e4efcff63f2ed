/** Which process a worker of a service is, for the words of errors. */
import { defaults } from "../base/limits.js";
import type { Hub } from "../client/hub.js";

/**
 * @param replies the name of the channel that it writes to; undefined if the hub does not say at
 * once
 */
export async function processOf(hub: Hub, replies: string): Promise<string | undefined> {
  try {
    const { holders } = await hub.inspect(replies, { timeoutMs: defaults.explanationMs });
    const worker = holders.find(({ access }) => access === "owner");
    return worker === undefined ? undefined : `process ${worker.pid}, ${worker.program}`;
  } catch {
    // It is only said in addition to an error.
    return undefined;
  }
}
