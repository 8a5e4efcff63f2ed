/**
 * The keeper of a hub, as a process of its own. Arguments: how to start a hub, as a list in JSON, and for those who look at
 * processes the socket of the hub.
 */
import { writeSync } from "node:fs";
import { OwnedFd } from "../os/owned-fd.js";
import { Keeper } from "./keeper.js";
import { keeperFds } from "./keeper-names.js";

const STANDARD_ERROR = 2;

/** WHY a line is dropped that cannot be written: a full disk must not end the keeper, and with it what it keeps. */
function log(line: string): void {
  try {
    writeSync(STANDARD_ERROR, `${new Date().toISOString()}  ${line}\n`);
  } catch {
    // The next line may find room.
  }
}

// WHY: whatever goes wrong with one thing, the others are to be kept.
process.on("uncaughtException", (error) => log(`the keeper goes on after an error: ${String(error)}`));
new Keeper({
  command: JSON.parse(process.argv[2] ?? "[]") as string[],
  socket: OwnedFd.adopt(keeperFds.socket),
  hubSocket: OwnedFd.adopt(keeperFds.hubSocket),
  hub: OwnedFd.adopt(keeperFds.hub),
  log,
});
