/** Opens the array by name, verifies it, and changes every element in place. */
import { durationWords, sizeWords } from "../../terminal/words.js";
import { play } from "../actor.js";
import { ARRAY_NAME, consumedValue, producedValue } from "../actor-messages.js";
import { fillArray, verifyArray } from "../array-content.js";

await play(async ({ hub, say, reached, told }) => {
  reached("ready");
  await told("open");
  const startMs = performance.now();
  using opened = await hub.open(ARRAY_NAME, { access: "read-write", wait: false });
  say(
    `opened "${ARRAY_NAME}" by name, without a copy, ` +
      `in ${durationWords(performance.now() - startMs)}`,
  );
  const array = opened.expectDType("float32");
  await verifyArray(array, producedValue);
  say(`read every element: ${sizeWords(array.byteLength)} verified`);
  await fillArray(array, consumedValue);
  say("changed every element x to x * -2, in place");
  reached("turned");
});
