/** A hub of the matrix. Argument 0 is its socket. */
import { HubServer } from "../../../../src/hub/server/hub-server.js";
import { argument, failed, obey } from "../../../support/matrix/obedience.js";
import { READY_ID } from "../../../support/matrix/orders.js";

process.umask(0o077);
const log = (_event: string, message: string): void => void process.stderr.write(`${message}\n`);
const refuse = (): never => {
  throw new TypeError("A hub takes no orders");
};
try {
  const hub = HubServer.start({ socket: argument(0), idleMs: Number.POSITIVE_INFINITY, log });
  obey(refuse, { code: null, value: null });
  process.channel?.unref();
  process.once("SIGTERM", () => hub.stop());
  await hub.ended;
  process.disconnect();
} catch (error) {
  process.send?.({ ...failed(error), id: READY_ID });
  process.exitCode = 1;
  process.disconnect();
}
