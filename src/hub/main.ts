/**
 * The hub as a process of its own, as `connect()` starts it. Says on standard output, in one line of JSON, whether it
 * listens or why not; standard error says the latter too, and what happens later.
 */
import { parseArgs } from "node:util";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { hubSettings } from "./config-file.js";
import { prepareHubProcess } from "./hub-process.js";
import { HubServer } from "./hub-server.js";
import { HubService } from "./hub-service.js";
import { logToStderr } from "./stderr-log.js";

prepareHubProcess();

try {
  const { values } = parseArgs({ options: { socket: { type: "string" }, "idle-ms": { type: "string" } } });
  const idle = values["idle-ms"];
  const settings = hubSettings(undefined);
  const service = HubService.ofProcess({ log: logToStderr, command: [process.execPath, ...process.argv.slice(1)] });
  const hub = HubServer.start({
    socket: values.socket,
    // WHY not: whoever starts this has made it, and may have removed it again, in which case nobody wants the hub any more.
    makesFolder: false,
    idleMs: idle === undefined ? settings.idleMs : Number(idle),
    policy: settings.policy,
    service,
    log: logToStderr,
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => hub.stop());
  // WHY: whoever started this hub may be gone before it reads the line; others are served all the same.
  process.stdout.on("error", () => {});
  process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
} catch (error) {
  const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
  const message = messageOf(error);
  process.stdout.write(`${JSON.stringify({ ready: false, code, message })}\n`);
  // WHY there too: a keeper that starts a hub reads nothing. WHY not that: several clients may start a hub at once, and one is enough.
  if (code !== "HUB_RUNNING") logToStderr(`the hub could not start: ${message}`);
  process.exitCode = 1;
}
