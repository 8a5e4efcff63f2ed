/** On the machine that dies: shares two arrays, and writes to a channel when told. */
import { arrayWords, plural, sizeWords } from "../../terminal/words.js";
import { play } from "../actor.js";
import { producedValue } from "../actor-messages.js";
import { fillArray } from "../array-content.js";
import { CHANNEL, COPIED, createFrames, FRAMES, frameValue, UNCOPIED } from "../machines/frames.js";

await play(async ({ hub, elements, say, reached, told }) => {
  using weights = await hub.create(COPIED, { dtype: "float32", shape: [elements] });
  await fillArray(weights, producedValue);
  await weights.publish();
  say(`shares "${COPIED}": ${arrayWords(weights)}, ${sizeWords(weights.byteLength)}`);
  using _unseen = await hub.put(UNCOPIED, Float32Array.of(1, 2, 3));
  using writer = await createFrames(hub, elements);
  await told("write");
  let bytes = 0;
  for (let frame = 0; frame < FRAMES; frame += 1) {
    const slot = await writer.loan();
    bytes += slot.array.byteLength;
    await fillArray(slot.array.expectDType("float32"), frameValue(frame));
    slot.commit();
  }
  say(`wrote ${plural(FRAMES, "message")} to channel "${CHANNEL}": ${sizeWords(bytes)}`);
  reached("written");
  await told("end");
});
