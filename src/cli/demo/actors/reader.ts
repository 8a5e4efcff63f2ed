/** Opens the array for reading, holds it, and verifies it when it is told to. */
import { durationWords, sizeWords } from "../../words.js";
import { play } from "../actor.js";
import { ARRAY_NAME, producedValue } from "../actor-messages.js";
import { verifyArray } from "../array-content.js";

await play(async ({ hub, say, reached, told }) => {
  reached("ready");
  await told("open");
  const startMs = performance.now();
  using opened = await hub.open(ARRAY_NAME, { wait: false });
  say(`opened "${ARRAY_NAME}" by its name in ${durationWords(performance.now() - startMs)} and holds it`);
  reached("holding");
  await told("read");
  await verifyArray(opened.as("float32"), producedValue);
  say(`read every element: ${sizeWords(opened.byteLength)} verified`);
  reached("verified");
});
