/**
 * Ends all processes of the demo `machines` if the demo itself is killed. Bridges and nats-server
 * would run on without it.
 */
import { dirname } from "node:path";
import { killProcessesIn } from "../machines/folder-processes.js";

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
process.on("disconnect", () => {
  const socket = process.argv[2];
  if (socket === undefined) process.exit();
  void killProcessesIn(dirname(socket)).finally(() => process.exit());
});
