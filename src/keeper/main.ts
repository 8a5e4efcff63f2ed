/**
 * The keeper's own process. Arguments: the command that starts a hub, as a list in JSON; the socket
 * of the hub, for people who list processes; and how to log, as JSON.
 */
import { defaultLogSettings, type LogSettings } from "../base/log-events.js";
import { logTo } from "../os/log-output.js";
import { OwnedFd } from "../os/owned-fd.js";
import { Keeper } from "./keeper.js";
import { keeperFds } from "./keeper-names.js";

const STANDARD_ERROR = 2;

const [, , command = "[]", , settings] = process.argv;
const logSettings =
  settings === undefined ? defaultLogSettings : (JSON.parse(settings) as LogSettings);
const log = logTo(STANDARD_ERROR, logSettings);

// A failure with one thing must not lose the others.
process.on("uncaughtException", (error) =>
  log("internal-error", `the keeper goes on after an error: ${String(error)}`),
);
new Keeper({
  command: JSON.parse(command) as string[],
  socket: OwnedFd.adopt(keeperFds.socket),
  hubSocket: OwnedFd.adopt(keeperFds.hubSocket),
  hub: OwnedFd.adopt(keeperFds.hub),
  log,
});
