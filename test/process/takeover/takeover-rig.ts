/** Hubs that follow each other at one socket, each a process of its own. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type ConnectOptions, connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import type { Predecessor } from "../../../src/hub/taking-over.js";
import { Actor } from "../../support/actor.js";
import { TestFolder } from "../../support/test-folder.js";

const SERVES_HUB = new URL("./actors/serves-hub.js", import.meta.url);

export interface Said {
  readonly predecessor?: Predecessor;
  readonly code?: string;
}

interface HubOptions {
  /** Sent by the hub to itself at the line of its log that begins with `at`. */
  readonly signal?: NodeJS.Signals;
  readonly at?: string;
  readonly timeoutMs?: number;
  readonly fdsMax?: number;
}

export class TakeoverRig {
  readonly folder = new TestFolder();
  readonly #actors: Actor[] = [];

  /** Starts the first hub, or one that is about to take over; what it says is still to be asked for. */
  hub({ signal, at, timeoutMs, fdsMax }: HubOptions = {}): Actor {
    const args = [this.folder.socket, String(timeoutMs ?? 30_000), signal ?? "", at ?? ""];
    const actor = new Actor(SERVES_HUB, { args, ...(fdsMax === undefined ? {} : { fdsMax }) });
    this.#actors.push(actor);
    return actor;
  }

  /** A hub that serves. */
  async serving(options: HubOptions = {}): Promise<Actor> {
    const actor = this.hub(options);
    const said = (await actor.says()) as Said;
    assert.equal(said.code, undefined, actor.complaint);
    return actor;
  }

  /** Has the place of `earlier` taken. */
  async successorOf(earlier: Actor, options: HubOptions = {}): Promise<Actor> {
    const actor = this.hub(options);
    const { predecessor, code } = (await actor.says()) as Said;
    assert.equal(code, undefined, `${actor.complaint}\n${earlier.complaint}`);
    assert.equal(predecessor?.pid, earlier.pid);
    assert.equal(await earlier.exited(), 0);
    return actor;
  }

  connect(options: ConnectOptions = {}): Promise<Hub> {
    return connect({ socket: this.folder.socket, start: false, device: "host", ...options });
  }

  /** What all hubs wrote to their logs. */
  get logs(): string {
    return this.#actors.map((actor) => `hub ${actor.pid}:\n${actor.complaint}`).join("");
  }

  /** WHY not the actors' own numbers: they are of the standard streams too. */
  fdsOf(hub: Actor): number {
    return readdirSync(`/proc/${hub.pid}/fd`).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const actor of this.#actors) await actor[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}
