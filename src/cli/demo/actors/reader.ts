/** Opens the array for reading, holds it, and verifies it when the demo asks for it. */
import { durationWords, sizeWords } from "../../terminal/words.js";
import { play } from "../actor.js";
import { ARRAY_NAME, producedValue } from "../actor-messages.js";
import { verifyArray } from "../array-content.js";

await play(async ({ hub, say, reached, told }) => {
  reached("ready");
  await told("open");
  const openMs = performance.now();
  using opened = await hub.open(ARRAY_NAME, { wait: false });
  say(
    `opened "${ARRAY_NAME}" by name in ${durationWords(performance.now() - openMs)} and holds it`,
  );
  reached("holding");
  for (const time of ["first", "second"]) {
    await told(`read, ${time} time`);
    const startMs = performance.now();
    await verifyArray(opened.expectDType("float32"), producedValue);
    say(
      `read every element: ${sizeWords(opened.byteLength)} verified in ` +
        `${durationWords(performance.now() - startMs)}`,
    );
    reached(`verified, ${time} time`);
  }
});
