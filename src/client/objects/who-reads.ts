/** Asks the hub who reads a channel. */
import { Deadline } from "../../base/deadline.js";
import { defaults } from "../../base/limits.js";
import type { ReaderNames } from "../../channel/reader-roster.js";
import type { HubLink } from "../connection/hub-link.js";

/** @param object its number, once the hub has it */
export function readerNames(
  link: HubLink,
  name: string,
  object: () => number | undefined,
): ReaderNames {
  return { socketPath: link.socketPath, whoReads: () => whoReads(link, name, object()) };
}

/** The processes that read a channel, by seat. Empty if the hub does not answer at once. */
async function whoReads(
  link: HubLink,
  name: string,
  object: number | undefined,
): Promise<ReadonlyMap<number, string>> {
  const deadline = new Deadline(`ask who reads "${name}"`, {}, defaults.explanationMs);
  try {
    const found = await link.request("inspect", { name }, deadline);
    // The name may be another channel's by now.
    if (found.object.object !== object) return new Map();
    return new Map(
      found.holders.map(({ place = -1, pid, program }) => {
        const own = pid === process.pid ? ", this process itself" : "";
        return [place, `process ${pid}, ${program}${own}`];
      }),
    );
  } catch {
    // The answer only completes an error message.
    return new Map();
  }
}
