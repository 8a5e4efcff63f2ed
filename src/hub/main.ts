/**
 * The hub's own process, as `connect()` starts it. Writes one line of JSON to standard output: that
 * it listens, or why not. Writes its log to standard error.
 */
import { parseArgs } from "node:util";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { defaultLogSettings } from "../base/log-events.js";
import { backgroundLog, codeOf } from "./hub-log.js";
import { hubSettings } from "./limits/config-file.js";
import { HubService } from "./restart/hub-service.js";
import { HubServer } from "./server/hub-server.js";
import { prepareHubProcess } from "./server/hub-start.js";

prepareHubProcess();

let log = backgroundLog(defaultLogSettings);
try {
  const { values } = parseArgs({
    options: { socket: { type: "string" }, "idle-ms": { type: "string" } },
  });
  const idle = values["idle-ms"];
  const settings = hubSettings(undefined);
  const { policy, log: logSettings } = settings;
  log = backgroundLog(logSettings);
  const service = HubService.ofProcess({
    log,
    logSettings,
    command: [process.execPath, ...process.argv.slice(1)],
  });
  const hub = HubServer.start({
    socket: values.socket,
    // The starting process has made it. If it is gone again, nobody wants the hub any more.
    makesFolder: false,
    idleMs: idle === undefined ? settings.idleMs : Number(idle),
    policy,
    service,
    log,
    logsChanges: logSettings.level === "debug",
  });
  const { pid } = process;
  log("hub-started", `hub ${pid} listens at ${hub.socketPath}`, { pid, path: hub.socketPath });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => hub.stop());
  // The starting process may end before it reads the line. The hub still serves others.
  process.stdout.on("error", () => {});
  process.stdout.write(`${JSON.stringify({ ready: true })}\n`);
} catch (error) {
  const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
  const message = messageOf(error);
  process.stdout.write(`${JSON.stringify({ ready: false, code, message })}\n`);
  // A keeper does not read standard output. HUB_RUNNING is normal if several clients start a hub.
  if (code !== "HUB_RUNNING")
    log("hub-not-started", `the hub could not start: ${message}`, codeOf(error));
  process.exitCode = 1;
}
