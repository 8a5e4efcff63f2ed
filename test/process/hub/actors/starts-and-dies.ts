// Starts a hub that is stopped before it can report, hangs up on it, and continues it. Argument:
// socket.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { argument, say } from "../../../support/actor-side.js";

const main = fileURLToPath(new URL("../../../../src/hub/main.js", import.meta.url));
const hub = spawn(process.execPath, [main, "--socket", argument(0)], {
  detached: true,
  stdio: ["ignore", "pipe", "ignore"],
});
hub.kill("SIGSTOP");
hub.stdout.destroy();
hub.stdout.once("close", () => {
  hub.kill("SIGCONT");
  hub.unref();
  say(hub.pid);
});
