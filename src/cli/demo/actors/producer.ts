/** Creates and publishes an array. Later verifies what the consumer changed. */
import { arrayWords, sizeWords } from "../../terminal/words.js";
import { play } from "../actor.js";
import { ARRAY_NAME, consumedValue, producedValue } from "../actor-messages.js";
import { fillArray, verifyArray } from "../array-content.js";

await play(async ({ hub, elements, say, reached, told }) => {
  using array = await hub.create(ARRAY_NAME, { dtype: "float32", shape: [elements] });
  await fillArray(array, producedValue);
  say(
    `created "${ARRAY_NAME}": ${arrayWords(array)}, ${sizeWords(array.byteLength)}, ` +
      "element i is i * 0.5 + 1",
  );
  await array.publish();
  say("published it");
  reached("published");
  await told("verify");
  await verifyArray(array, consumedValue);
  say(`sees every change in its own memory: ${sizeWords(array.byteLength)} verified`);
  reached("verified");
});
