/**
 * The keeper's own process. Arguments: the command that starts a hub, as a list in JSON, and the
 * socket of the hub, for people who list processes.
 */
import { writeSync } from "node:fs";
import { OwnedFd } from "../os/owned-fd.js";
import { Keeper } from "./keeper.js";
import { keeperFds } from "./keeper-names.js";

const STANDARD_ERROR = 2;

/**
 * Drops a line that cannot be written: a full disk must not end the keeper and lose what it keeps.
 */
function log(line: string): void {
  try {
    writeSync(STANDARD_ERROR, `${new Date().toISOString()}  ${line}\n`);
  } catch {
    // The next line may find room.
  }
}

// A failure with one thing must not lose the others.
process.on("uncaughtException", (error) =>
  log(`the keeper goes on after an error: ${String(error)}`),
);
new Keeper({
  command: JSON.parse(process.argv[2] ?? "[]") as string[],
  socket: OwnedFd.adopt(keeperFds.socket),
  hubSocket: OwnedFd.adopt(keeperFds.hubSocket),
  hub: OwnedFd.adopt(keeperFds.hub),
  log,
});
