/** A hub of the matrix at the socket of argument 0: the first one, or, within argument 1 in ms, the successor of the one that runs. */
import { takeOverHub } from "../../../../src/hub/taking-over.js";
import { disarm } from "../../../support/matrix/fault-seam.js";
import { argument, failed, obey } from "../../../support/matrix/obedience.js";
import { FAREWELL_ID, READY_ID } from "../../../support/matrix/orders.js";

process.umask(0o077);
const log = (line: string): void => void process.stderr.write(`${line}\n`);
const refuse = (): never => {
  throw new TypeError("A hub does nothing of itself");
};
try {
  const options = { socket: argument(0), timeoutMs: Number(argument(1)), idleMs: Number.POSITIVE_INFINITY, log };
  const { hub, predecessor } = await takeOverHub(options);
  obey(refuse, { code: null, value: predecessor?.pid ?? null });
  // WHY: a hub that has handed over ends by itself.
  process.channel?.unref();
  process.once("SIGTERM", () => hub.stop());
  await hub.ended;
  process.send?.({ id: FAREWELL_ID, code: null, value: disarm() });
  process.disconnect();
} catch (error) {
  process.send?.({ ...failed(error), id: READY_ID });
  process.exitCode = 1;
  process.disconnect();
}
