/**
 * A setup in which a hub's system calls fail. The hub is this process and its clients are another,
 * so all counted calls are the hub's.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { HubServer } from "../../src/hub/server/hub-server.js";
import { mappedBytes } from "../../src/os/mapping.js";
import { openFdCount } from "../../src/os/owned-fd.js";
import { Actor } from "./actor.js";
import type { RoundResult } from "./system-call-sweep.js";
import { TestFolder } from "./test-folder.js";
import { until } from "./until.js";

const CLIENT = new URL("../fault/actors/hub-client.js", import.meta.url);

interface Outcome {
  readonly code: string | null;
  readonly message?: string;
  readonly status?: Readonly<Record<string, number>>;
}

interface Counts {
  readonly fds: number;
  readonly ownedFds: number;
  readonly mappedBytes: number;
}

export class HubSite {
  #folder: TestFolder | undefined;
  #server: HubServer | undefined;
  #client: Actor | undefined;
  /** Counts with the hub and its client's process, but without a connection. */
  #idle: Counts | undefined;

  get socket(): string {
    this.#folder ??= new TestFolder();
    return this.#folder.socket;
  }

  get server(): HubServer {
    assert.ok(this.#server !== undefined, "a hub runs here");
    return this.#server;
  }

  /** Starts the hub and the client if they do not run, and has the client run these commands. */
  async prepare(deeds: readonly string[]): Promise<void> {
    this.#server ??= HubServer.start({ socket: this.socket, idleMs: Number.POSITIVE_INFINITY });
    if (this.#client === undefined) {
      this.#client = new Actor(CLIENT, { args: [this.socket] });
      await this.#client.says();
      // WHY before counting: the hub keeps what it opens at first use.
      assert.equal((await this.tell("probe")).code, null);
      await until("the probe has left", () => openFdCount() === HUB_FDS);
      this.#idle = counts();
    }
    for (const deed of deeds) {
      const { code, message } = await this.tell(deed);
      assert.equal(code, null, `${deed}: ${message}`);
    }
  }

  /** Has the client run a command, and returns the outcome. */
  async tell(deed: string): Promise<Outcome> {
    assert.ok(this.#client !== undefined, "there is a client");
    this.#client.goOn(deed);
    return (await this.#client.says()) as Outcome;
  }

  /** Ends the client's process, and waits until the hub has released what the client held. */
  async kill(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.[Symbol.asyncDispose]();
    await until(
      "everything of the client is released",
      () => openFdCount() === HUB_FDS && mappedBytes() === 0,
    );
  }

  /**
   * Checks that the hub serves others and holds nothing of the client once it has left. A client
   * that was cut off must end first.
   */
  async check({ failure }: RoundResult): Promise<void> {
    const what = failure?.description ?? "no failure";
    if (this.#client === undefined) await this.prepare([]);
    else {
      const { code, message } = await this.tell("probe");
      assert.equal(code, null, `after ${what}: ${message}`);
    }
    await this.tell("leave");
    const { status = {} } = await this.tell("status");
    if (Object.values(status).some((count) => count > 0)) {
      await this.kill();
      await this.prepare([]);
      const after = await this.tell("status");
      assert.deepEqual(
        after.status,
        { objects: 0, leases: 0, clients: 0, waitingOpens: 0 },
        `after ${what}`,
      );
    }
    await until(
      `after ${what} the hub holds as much as before: ${JSON.stringify(this.#idle)}`,
      () => {
        return JSON.stringify(counts()) === JSON.stringify(this.#idle);
      },
    );
  }

  /** Stops the hub, even while it is in use. */
  stop(): void {
    const server = this.#server;
    this.#server = undefined;
    server?.stop();
  }

  async close(): Promise<void> {
    const client = this.#client;
    const folder = this.#folder;
    this.#client = undefined;
    this.#folder = undefined;
    await client?.[Symbol.asyncDispose]();
    this.stop();
    folder?.[Symbol.dispose]();
  }
}

/**
 * The hub's lock, its listening socket and its twin, its journal, its own memory, the watch of its
 * folder and the socket of its gate.
 */
const HUB_FDS = 7;

function counts(): Counts {
  return {
    fds: readdirSync("/proc/self/fd").length,
    ownedFds: openFdCount(),
    mappedBytes: mappedBytes(),
  };
}
