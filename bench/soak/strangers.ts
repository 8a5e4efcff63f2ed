/** Channels of another user, who never stops changing their words. Reads of them end in time. */
import { restlessChannels } from "../../test/support/attack.js";
import type { Visit } from "./visit.js";

const READ_WAIT_MS = 200;
const READS = 3;
/** One user attacks with two processes at most. */
const NAMES = restlessChannels.slice(0, 2);

export async function meetRestless({ hub, random, tally }: Visit): Promise<void> {
  const name = random.pick(NAMES);
  const from = random.pick(["latest", "oldest", "next"] as const);
  const opening = () => hub.openChannel(name, { from, wait: false });
  const refused = ["NOT_FOUND", "CHANNEL_CORRUPT", "PEER_GONE"] as const;
  const channel = await tally.attempt("open restless", refused, opening);
  if (channel === undefined) return;
  for (let count = 0; count < READS; count += 1) {
    const read = async () => (await channel.next({ timeoutMs: READ_WAIT_MS }))?.release();
    const expected = ["TIMEOUT", "CHANNEL_CORRUPT", "PEER_GONE"] as const;
    await tally.attempt("read restless", expected, read, READ_WAIT_MS);
  }
  await tally.attempt("close restless", [], () => channel.close());
}
