// Starts a hub with so few free descriptors that the process cannot be made. Prints how it failed.
// Run it with a low limit.
import { closeSync, openSync } from "node:fs";
import "node:readline";
import { Deadline } from "../../../src/base/deadline.js";
import { CudaIpcError } from "../../../src/base/errors.js";
import { packageVersion } from "../../../src/base/own-package.js";
import { KeepAlive } from "../../../src/client/connection/keep-alive.js";
import { startHub } from "../../../src/client/connection/start-hub.js";
import { argument, say } from "../../support/actor-side.js";

/** For the log of the hub, and one of the pipe's two ends. */
const FREE = 2;

// As a client that was connected: it has read its version before.
packageVersion();
const fillers: number[] = [];
try {
  for (;;) fillers.push(openSync("/dev/null", "r"));
} catch {
  // The table is full, as intended.
}
for (const filler of fillers.splice(-FREE)) closeSync(filler);
const codes: string[] = [];
for (const referenced of [true, false]) {
  const keepAlive = new KeepAlive();
  keepAlive.setReferenced(referenced);
  try {
    await startHub(argument(0), 1000, new Deadline("start", {}, 30_000), keepAlive);
  } catch (error) {
    codes.push(error instanceof CudaIpcError ? error.code : String(error));
  }
}
for (const filler of fillers) closeSync(filler);
say({ codes });
