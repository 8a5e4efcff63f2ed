/** Hubs without a keeper that follow each other at one socket, each in its own process. */
import assert from "node:assert/strict";
import { type ConnectOptions, connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { TestFolder } from "../../support/test-folder.js";

const SERVES_HUB = new URL("./actors/serves-hub.js", import.meta.url);

export class HubRig {
  readonly folder = new TestFolder();
  readonly #actors: Actor[] = [];

  /** Starts a hub, and waits until it serves. */
  async serving(): Promise<Actor> {
    const actor = new Actor(SERVES_HUB, { args: [this.folder.socket] });
    this.#actors.push(actor);
    const said = (await actor.says()) as { readonly code?: string };
    assert.equal(said.code, undefined, actor.complaint);
    return actor;
  }

  connect(options: ConnectOptions = {}): Promise<Hub> {
    return connect({ socket: this.folder.socket, start: false, device: "host", ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const actor of this.#actors) await actor[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}
