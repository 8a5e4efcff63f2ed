/**
 * The soak's own connection to the hub: observes it, kills it or its keeper, and joins the next
 * one.
 */
import { hasCode } from "../../src/base/errors.js";
import { connect } from "../../src/index.js";
import type { HubStatus } from "../../src/wire/messages.js";
import { fdCount, fdKinds, memoryFileCount, residentBytes } from "../hub/process-facts.js";
import type { Member } from "./visit.js";

const MiB = 1024 * 1024;
const TRIES = 10;

/** The state of the hub. The soak's own connection counts as a client. */
export interface HubSample {
  readonly pid: number;
  readonly fds: number;
  readonly fdKinds: Readonly<Record<string, number>>;
  readonly memoryFiles: number;
  readonly rssMiB: number;
  readonly objects: number;
  readonly leases: number;
  readonly clients: number;
  readonly waitingOpens: number;
}

export class HubObserver {
  readonly #socket: string;
  readonly #hubIdleMs: number;
  #hub: Member;
  #hubPid: number;
  /** Hubs that ended although the soak did not kill them. */
  readonly unexpectedEnds: string[] = [];
  #killedPid: number | undefined;
  kills = 0;
  keeperKills = 0;

  private constructor(socket: string, hubIdleMs: number, hub: Member, hubPid: number) {
    this.#socket = socket;
    this.#hubIdleMs = hubIdleMs;
    this.#hub = hub;
    this.#hubPid = hubPid;
  }

  /** Starts a hub if none runs. */
  static async join(socket: string, hubIdleMs: number): Promise<HubObserver> {
    const hub = await connect({ socket, device: "host", hubIdleMs, program: "soak" });
    const { pid } = await hub.status();
    return new HubObserver(socket, hubIdleMs, hub, pid);
  }

  async sample(): Promise<HubSample> {
    return await this.#asked(async (hub) => {
      const { pid, objects, leases, clients, waitingOpens } = await this.#status(hub);
      const rssMiB = Math.round((residentBytes(pid) / MiB) * 10) / 10;
      const memoryFiles = memoryFileCount(pid);
      return {
        pid,
        fds: fdCount(pid),
        fdKinds: fdKinds(pid),
        memoryFiles,
        rssMiB,
        objects,
        leases,
        clients,
        waitingOpens,
      };
    });
  }

  /** Removes the pinned objects. */
  async removeAll(): Promise<void> {
    for (const { name } of await this.#asked((hub) => hub.list())) {
      try {
        await this.#hub.remove(name);
      } catch (error) {
        // It has ended meanwhile.
        if (!hasCode(error, "NOT_FOUND")) throw error;
      }
    }
  }

  async killHub(): Promise<void> {
    const { pid } = await this.#asked((hub) => this.#status(hub));
    this.#killedPid = pid;
    this.kills += 1;
    process.kill(pid, "SIGKILL");
  }

  /** Kills the hub's keeper. Resolves when the hub's next keeper has everything. */
  async killKeeper(): Promise<void> {
    const keeper = (await this.#asked((hub) => this.#status(hub))).keeper;
    if (keeper === null) return;
    this.keeperKills += 1;
    process.kill(keeper.pid, "SIGKILL");
    for (;;) {
      const status = await this.#asked((hub) => this.#status(hub));
      if (status.keeper !== null && status.keeper.pid !== keeper.pid && status.keeper.pending === 0)
        return;
    }
  }

  /** Ends the hub with its objects, and the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#asked((hub) => hub.stop({ force: true }));
    } finally {
      await this.#hub.close();
    }
  }

  async #status(hub: Member): Promise<HubStatus> {
    const status = await hub.status();
    if (status.pid !== this.#hubPid && this.#hubPid !== this.#killedPid) {
      this.unexpectedEnds.push(`the hub, process ${this.#hubPid}, ended, and nobody had killed it`);
    }
    this.#hubPid = status.pid;
    for (const { name } of status.lost)
      this.unexpectedEnds.push(`"${name}" was lost, although only one process was killed`);
    return status;
  }

  /** Asks the hub. If it ends meanwhile, asks the next one. */
  async #asked<T>(ask: (hub: Member) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await ask(this.#hub);
      } catch (error) {
        const isGone =
          hasCode(error, "HUB_GONE") ||
          (error instanceof Error && "code" in error && error.code === "ENOENT");
        if (!isGone || tries === TRIES) throw error;
        await this.#hub.close();
        this.#hub = await connect({
          socket: this.#socket,
          device: "host",
          hubIdleMs: this.#hubIdleMs,
          program: "soak",
        });
      }
    }
  }
}
