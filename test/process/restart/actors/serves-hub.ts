// Serves a hub without a keeper at the socket of argument 0, and reports that.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { HubServer } from "../../../../src/hub/server/hub-server.js";
import { argument, say } from "../../../support/actor-side.js";

process.umask(0o077);
const log = (_event: string, message: string): void => void process.stderr.write(`${message}\n`);
try {
  const hub = HubServer.start({ socket: argument(0), idleMs: Number.POSITIVE_INFINITY, log });
  process.once("SIGTERM", () => hub.stop());
  say({});
  await hub.ended;
} catch (error) {
  say({ code: error instanceof CudaIpcError ? error.code : String(error) });
  process.exitCode = 1;
}
