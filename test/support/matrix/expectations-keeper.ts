/** The expected results of cells in which the keeper or its hub is hit. */
import type { KeeperExpectations } from "./expectation.js";

const WORKS = "works; the next keeper has everything";
const RESTARTED = "works; the hub after the restart has everything from the next keeper";
const ANSWERED = "the call waits, and is answered by the hub that the keeper starts";

export const keeperExpectations: KeeperExpectations = {
  SIGKILL: {
    create: WORKS,
    publish: WORKS,
    replace: WORKS,
    open: WORKS,
    read: WORKS,
    write: WORKS,
    close: `${WORKS} but what was closed`,
    reconnect: "all come back; the next keeper has everything",
  },
  "SIGKILL, then hub restart": {
    create: RESTARTED,
    publish: RESTARTED,
    replace: RESTARTED,
    open: RESTARTED,
    read: RESTARTED,
    write: RESTARTED,
    close: `${RESTARTED} but what was closed`,
    reconnect: "all come back twice; the hub after the restart has everything",
  },
  "SIGKILL of its hub": {
    create: ANSWERED,
    publish: `${ANSWERED}; published once`,
    replace: `${ANSWERED}; the name passes on once`,
    open: ANSWERED,
    read: "the read needs no hub; the keeper starts the next one",
    write: "the writing needs no hub; the keeper starts the next one",
    close: "what was closed is not held at the next hub",
    reconnect: "all come back to the next hub, with names, leases and memory as before",
  },
};
