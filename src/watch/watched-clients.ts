/** The clients of a hub, with what this machine knows of their users and processes. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { HubLink } from "../client/connection/hub-link.js";
import { userName } from "../os/accounts.js";
import { CommandReader } from "../os/command-reader.js";
import type { ClientStatus } from "../wire/messages.js";
import { languageOf } from "./client-language.js";
import type { WatchedClient, WatchedObject } from "./snapshot.js";

export class WatchedClients {
  /** By session, because a session belongs to one process forever. */
  #commands = new Map<number, string | undefined>();
  readonly #reader: CommandReader;
  /** A process did not answer. Then no look waits for command lines, which come when they come. */
  #isSlow = false;
  #learning: Promise<void> | undefined;
  readonly #users = new Map<number, string | undefined>();
  #clients: readonly ClientStatus[] = [];

  constructor(reader: CommandReader = new CommandReader()) {
    this.#reader = reader;
  }

  /** Asks the hub for all clients but this one. @throws INVALID_MESSAGE */
  async update(link: HubLink, deadline: Deadline): Promise<void> {
    const all = await allClients(link, deadline);
    const own = all.find(({ session }) => session === link.session);
    // The numbers of the hub's PID namespace are this process's own if it finds itself by them.
    const isSameNamespace = own?.pid === process.pid;
    this.#clients = all.filter((client) => client !== own);
    const present = new Set(this.#clients.map(({ session }) => session));
    for (const session of this.#commands.keys())
      if (!present.has(session)) this.#commands.delete(session);
    if (!isSameNamespace) return;
    this.#learning ??= this.#learnCommands().finally(() => {
      this.#learning = undefined;
    });
    if (!this.#isSlow) await this.#learning;
  }

  clear(): void {
    this.#clients = [];
    // WHY a new one: a read that ends later must not add to it.
    this.#commands = new Map();
    this.#reader.giveUp();
  }

  /** Reads the command lines of new clients, until one does not answer. */
  async #learnCommands(): Promise<void> {
    const commands = this.#commands;
    while (!this.#reader.isBusy) {
      const unknown = this.#clients.filter(({ session }) => !commands.has(session));
      if (unknown.length === 0) return;
      const { texts, isLate } = await this.#reader.read(unknown.map(({ pid }) => pid));
      for (const [index, text] of texts.entries()) {
        const client = unknown[index];
        if (client !== undefined) commands.set(client.session, text);
      }
      if (!isLate) continue;
      this.#isSlow = true;
      return;
    }
  }

  /** The clients with the objects that each holds. */
  holding(objects: Iterable<WatchedObject>): WatchedClient[] {
    const held = new Map<number, Set<number>>();
    for (const { object, holders } of objects) {
      for (const { session } of holders) {
        const ofSession = held.get(session);
        if (ofSession === undefined) held.set(session, new Set([object]));
        else ofSession.add(object);
      }
    }
    return this.#clients.map((client) => ({
      ...client,
      user: this.#user(client.uid),
      command: this.#commands.get(client.session),
      language: languageOf(client.program, this.#commands.get(client.session)),
      objects: [...(held.get(client.session) ?? [])],
    }));
  }

  #user(uid: number): string | undefined {
    if (!this.#users.has(uid)) this.#users.set(uid, userName(uid));
    return this.#users.get(uid);
  }
}

async function allClients(link: HubLink, deadline: Deadline): Promise<ClientStatus[]> {
  const all: ClientStatus[] = [];
  for (let after: number | null | undefined; after !== null; ) {
    const asked: { after?: number } = after === undefined ? {} : { after };
    const page: { readonly clients: ClientStatus[]; readonly next: number | null } =
      await link.request("clients", asked, deadline);
    all.push(...page.clients);
    if (page.next !== null && page.next <= (after ?? 0)) {
      const found = `the page after ${after ?? 0} is followed by that after ${page.next}`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot list clients: ${found}`);
    }
    after = page.next;
  }
  return all;
}
