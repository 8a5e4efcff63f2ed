/**
 * The hub's own process, as `connect()` starts it. Writes one line of JSON to standard output: that
 * it listens, or why not. Writes its log to standard error.
 */
import { parseArgs } from "node:util";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { defaultLogSettings } from "../base/log-events.js";
import { leaveService } from "../os/control-group.js";
import { backgroundLog, codeOf } from "./hub-log.js";
import { hubSettings } from "./limits/config-file.js";
import { HubService } from "./restart/hub-service.js";
import { HubServer } from "./server/hub-server.js";
import { prepareHubProcess } from "./server/hub-start.js";

/**
 * Signals that supervisors send to the program that happened to start this hub, and to all that it
 * started: Ctrl-C, pm2 and systemd, a closed terminal, nodemon.
 */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"] as const;

/**
 * A hub that others use goes on, because the signal was for one of its clients. A service ends with
 * all its processes, and would otherwise be killed after a while.
 */
function hear(signal: string, hub: HubServer, unit: string | undefined): void {
  const { inUse } = hub;
  if (inUse === undefined || unit !== undefined) {
    hub.stop();
    return;
  }
  const words = `${signal} does not end the hub, because others use it (${inUse})`;
  log("signal-not-followed", `${words}. To end it: cuda-ipc hub stop --force`);
}

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
  // Before the keeper is started, which would stay behind.
  const unit = await leaveService("The cuda-ipc hub");
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
  if (unit !== undefined) {
    const remedy = "Run the hub as a service of its own (deploy/) if others use it";
    log("hub-in-service", `the hub ends with ${unit}, which started it. ${remedy}.`);
  }
  for (const signal of SIGNALS) process.on(signal, () => hear(signal, hub, unit));
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
