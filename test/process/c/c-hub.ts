/** A hub, a client of it in Node and the programs in C, for all tests of one `describe`. */
import { after, before } from "node:test";
import type { Hub } from "../../../src/index.js";
import type { PeerProcess } from "../../support/peer-process.js";
import { TestHub } from "../../support/test-hub.js";
import { CPrograms } from "./c-programs.js";

export interface CHub {
  readonly programs: CPrograms;
  readonly testHub: TestHub;
  readonly hub: Hub;
}

/**
 * Starts them before the tests and ends them afterwards.
 * @param use receives them once they run
 * @returns a function that runs the peer in C with the hub
 */
export function withCHub(
  use: (it: CHub) => void,
): (command: string, ...args: string[]) => PeerProcess {
  const programs = new CPrograms();
  let testHub: TestHub;
  let hub: Hub;
  before(async () => {
    testHub = await TestHub.start();
    hub = await testHub.connect();
    use({ programs, testHub, hub });
  });
  after(async () => {
    await hub.close();
    await testHub[Symbol.asyncDispose]();
  });
  return (command, ...args) => programs.peer(testHub.socket, command, ...args);
}
