// Reads a channel to its end, checks each word of each message and that every gap is counted, and
// prints the result. Prints "here" when the channel is open. Arguments: socket, name, options as
// JSON: `hold` (slots to keep) and `sayAt` (prints "at N" after message N).
import type { ReaderOptions } from "../../../../src/channel/channel-options.js";
import type { ReceivedSlot } from "../../../../src/channel/received-slot.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say } from "../../../support/actor-side.js";

const [socket, name, given] = [0, 1, 2].map(argument) as [string, string, string];
const {
  hold = 0,
  sayAt,
  ...options
} = JSON.parse(given) as ReaderOptions & { hold?: number; sayAt?: number };
await using hub = await connect({ socket, start: false, device: "host" });
using reader = await hub.openChannel(name, options);
say("here");
const held: ReceivedSlot[] = [];
let first: number | undefined;
let next: number | undefined;
let wrong = 0;
let end = "end";

function check({ sequence, missed, bytes }: ReceivedSlot): void {
  first ??= sequence;
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, 64);
  if (!words.every((word) => word === sequence)) wrong += 1;
  if (next !== undefined && sequence !== next + missed) wrong += 1;
  next = sequence + 1;
}

try {
  for (let slot = await reader.next(); slot !== undefined; slot = await reader.next()) {
    check(slot);
    if (held.length < hold) held.push(slot);
    else slot.release();
    if (sayAt !== undefined && slot.sequence >= sayAt && slot.sequence - slot.missed <= sayAt)
      say(`at ${sayAt}`);
  }
} catch (error) {
  end = (error as { code?: string }).code ?? String(error);
}
const { received, missed } = reader;
say({ end, first: first ?? null, next: next ?? null, received, missed, wrong });
