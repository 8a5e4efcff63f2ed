/** A hub that takes the place of the one that runs, as `cuda-ipc hub serve --takeover` does. */
import { takeOverHub } from "../../../hub/taking-over.js";
import { durationWords, plural } from "../../words.js";
import { serve } from "../actor.js";

await serve(async ({ socket, idleMs, say, reached }) => {
  const { hub, predecessor } = await takeOverHub({ socket, idleMs });
  if (predecessor !== undefined) {
    const { objects, pid, milliseconds } = predecessor;
    say(`took ${plural(objects, "object")} and all connections over from ${pid} in ${durationWords(milliseconds)}`);
  }
  reached("serving");
  return hub.ended;
});
