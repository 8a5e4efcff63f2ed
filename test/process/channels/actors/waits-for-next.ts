// Opens a channel, says how a limited wait for its next message ends, and then waits without a
// limit until it hears SIGTERM. Arguments: socket, name.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name] = [0, 1].map(argument) as [string, string];
const hub = await connect({ socket, start: false, device: "host" });
const reader = await hub.openChannel(name);
say("opened");
await told();
const code = await reader.next({ timeoutMs: 500 }).then(
  () => "a message",
  (error) => (error as { readonly code?: string }).code ?? String(error),
);
say(code);
process.once("SIGTERM", () => {
  say("heard");
  process.exit(0);
});
const waiting = reader.next().then(
  () => "a message",
  (error) => String(error),
);
say("waits");
say(await waiting);
