// `timeline.mjs SOCKET own|wait NAME [end|wait]`: owns a timeline, or waits for one of Python's.
import { args, heard, hub, LIMIT, say } from "./common.mjs";

const [command, name, whenOwnerGone = "end"] = args;
if (command === "own") {
  const timeline = await hub.createTimeline(name, { whenOwnerGone });
  say("open");
  for (let value = await heard(); value !== undefined; value = await heard()) {
    timeline.signal(BigInt(value));
    say("done");
  }
} else {
  const timeline = await hub.openTimeline(name);
  say("open");
  for (let value = await heard(); value !== undefined; value = await heard()) {
    try {
      await timeline.wait(BigInt(value), LIMIT);
      say("reached");
    } catch (error) {
      say(error.code);
    }
  }
}
await hub.close();
