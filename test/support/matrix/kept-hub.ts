/** A hub of the matrix with its keeper. If one of them ends, another replaces it. */
import type { Hub } from "../../../src/client/hub.js";
import { Seam } from "../seam/seam.js";
import type { TestFolder } from "../test-folder.js";
import { TestHub } from "../test-hub.js";
import { until } from "../until.js";
import type { Order, Outcome } from "./orders.js";
import { fdsOf, isRunning } from "./party.js";

export class KeptHub {
  readonly title = "hub";
  readonly #testHub: TestHub;
  /** The pid of the current hub. */
  readonly pid: number;
  readonly keeperPid: number;

  private constructor(testHub: TestHub, pid: number, keeperPid: number) {
    this.#testHub = testHub;
    this.pid = pid;
    this.keeperPid = keeperPid;
  }

  static async start(folder: TestFolder): Promise<KeptHub> {
    const testHub = await TestHub.start({ folder, withSeam: true });
    await using hub = await testHub.connect();
    return new KeptHub(testHub, 0, 0).next(hub);
  }

  /**
   * Waits until hub and keeper are both other processes than `earlier`.
   * @param hub a connection that asks for their pids
   */
  async next(hub: Hub, ...earlier: readonly number[]): Promise<KeptHub> {
    let found: KeptHub | undefined;
    await until("a hub with a keeper serves", async () => {
      const { pid, keeper } = await hub.status();
      if (keeper !== null) found = new KeptHub(this.#testHub, pid, keeper.pid);
      return (
        found !== undefined && !earlier.includes(found.pid) && !earlier.includes(found.keeperPid)
      );
    });
    const { pid, keeperPid } = found as KeptHub;
    return pid === this.pid && keeperPid === this.keeperPid ? this : (found as KeptHub);
  }

  get hasEnded(): boolean {
    return !isRunning(this.pid);
  }

  seam(pid: number): Promise<Seam> {
    return Seam.of(this.#testHub.folder.path, pid);
  }

  /** Takes only the order to cut the hub's sockets. */
  async tell(order: Order): Promise<Outcome> {
    if (order.do !== "cut") throw new TypeError(`A hub does not ${order.do}`);
    using seam = await this.seam(this.pid);
    return { code: (await seam.tell(order)) === undefined ? "ended" : null };
  }

  fds(): Readonly<Record<string, number>> {
    return fdsOf(this.pid);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#testHub[Symbol.asyncDispose]();
  }
}
