/** On a machine that lives: copies an array, reads a channel, and sees the other machine die. */
import { CudaIpcError } from "../../../base/errors.js";
import type { ChannelReader } from "../../../channel/channel-reader.js";
import { durationWords, plural, sizeWords } from "../../terminal/words.js";
import { type Actor, play } from "../actor.js";
import { producedValue } from "../actor-messages.js";
import { verifyArray } from "../array-content.js";
import { CHANNEL, COPIED, FRAMES, frameValue, UNCOPIED } from "../machines/frames.js";

await play(async (actor) => {
  const { hub, say, reached, told } = actor;
  const startMs = performance.now();
  using weights = await hub.open(COPIED, { from: "any" });
  const took = durationWords(performance.now() - startMs);
  await verifyArray(weights.expectDType("float32"), producedValue);
  const size = sizeWords(weights.byteLength);
  const from = weights.replicaOf?.machine ?? "nowhere";
  say(`opened "${COPIED}" in ${took}: a copy from machine "${from}", ${size} verified`);

  using reader = await hub.openChannel(CHANNEL, { machine: "any" });
  reached("joined");
  await readFrames(actor, reader);
  reached("read");

  const gone = await refusal("the channel", () => reader.next());
  say(`channel "${CHANNEL}" ended after its last message: ${gone.code}`);
  reached("channel ended");

  await told("look again");
  await verifyArray(weights.expectDType("float32"), producedValue);
  say(`still has every element of "${COPIED}": ${size} verified`);
  const unseen = await refusal(UNCOPIED, () => hub.open(UNCOPIED, { from: "any", wait: false }));
  say(`cannot open "${UNCOPIED}", which nobody had copied: ${unseen.code}`);
});

async function readFrames({ say }: Actor, reader: ChannelReader): Promise<void> {
  let bytes = 0;
  for (let frame = 0; frame < FRAMES; frame += 1) {
    using message = await reader.next();
    if (message?.sequence !== frame) {
      const found = `message ${message?.sequence} came, not message ${frame}`;
      throw new CudaIpcError("VERIFICATION_FAILED", `The channel is not in order: ${found}`);
    }
    await verifyArray(message.array.expectDType("float32"), frameValue(frame));
    bytes += message.byteLength;
  }
  say(`read ${plural(FRAMES, "message")} in order, none missed: ${sizeWords(bytes)} verified`);
}

/** @throws VERIFICATION_FAILED unless the call fails with PEER_GONE */
async function refusal(what: string, call: () => Promise<unknown>): Promise<CudaIpcError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof CudaIpcError && error.code === "PEER_GONE") return error;
    throw error;
  }
  const message = `The machine of ${what} is dead, and nothing says so`;
  throw new CudaIpcError("VERIFICATION_FAILED", message);
}
