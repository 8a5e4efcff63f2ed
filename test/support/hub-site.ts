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
  /** With the hub and the process of its client, and no connection. */
  #idle: Counts | undefined;

  get socket(): string {
    this.#folder ??= new TestFolder();
    return this.#folder.socket;
  }

  get server(): HubServer {
    assert.ok(this.#server !== undefined, "a hub runs here");
    return this.#server;
  }

  /** A hub that runs, and a client that is connected and has done these things. */
  async prepare(deeds: readonly string[]): Promise<void> {
    this.#server ??= HubServer.start({ socket: this.socket, idleMs: Number.POSITIVE_INFINITY });
    if (this.#client === undefined) {
      this.#client = new Actor(CLIENT, { args: [this.socket] });
      await this.#client.says();
      // WHY before counting: what is opened at first use stays.
      assert.equal((await this.tell("probe")).code, null);
      await until("the probe has left", () => openFdCount() === HUB_FDS);
      this.#idle = counts();
    }
    for (const deed of deeds) {
      const { code, message } = await this.tell(deed);
      assert.equal(code, null, `${deed}: ${message}`);
    }
  }

  /** Has the client do something and tells how it went. */
  async tell(deed: string): Promise<Outcome> {
    assert.ok(this.#client !== undefined, "there is a client");
    this.#client.goOn(deed);
    return (await this.#client.says()) as Outcome;
  }

  /** Ends the client's process, and waits until the hub has given back what it held. */
  async kill(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.[Symbol.asyncDispose]();
    await until(
      "what the client held is given back",
      () => openFdCount() === HUB_FDS && mappedBytes() === 0,
    );
  }

  /**
   * The hub serves others, and holds nothing any more once the client has left or, where it was cut
   * off, has ended.
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

  /** Ends the hub, whatever it has. */
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
 * The hub's lock, its listening socket, its journal, its own memory, the watch of its folder and
 * the socket of its gate.
 */
const HUB_FDS = 6;

function counts(): Counts {
  return {
    fds: readdirSync("/proc/self/fd").length,
    ownedFds: openFdCount(),
    mappedBytes: mappedBytes(),
  };
}
