/** The clients of a hub, with what this machine knows of their users and processes. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { HubLink } from "../client/connection/hub-link.js";
import { userName } from "../os/accounts.js";
import type { ClientStatus } from "../wire/messages.js";
import { type ClientProcess, clientProcess } from "./client-process.js";
import type { WatchedClient, WatchedObject } from "./snapshot.js";

export class WatchedClients {
  /** By session, because a session belongs to one process for ever. */
  readonly #processes = new Map<number, ClientProcess>();
  readonly #users = new Map<number, string | undefined>();
  #clients: readonly ClientStatus[] = [];

  /** Asks the hub for all clients but this one. @throws INVALID_MESSAGE */
  async update(link: HubLink, deadline: Deadline): Promise<void> {
    const all = await allClients(link, deadline);
    const own = all.find(({ session }) => session === link.session);
    // The numbers of the hub's PID namespace are this process's own if it finds itself by them.
    const isSameNamespace = own?.pid === process.pid;
    this.#clients = all.filter((client) => client !== own);
    const present = new Set(this.#clients.map(({ session }) => session));
    for (const session of this.#processes.keys())
      if (!present.has(session)) this.#processes.delete(session);
    for (const { session, pid, program } of this.#clients) {
      if (!this.#processes.has(session))
        this.#processes.set(session, clientProcess(isSameNamespace ? pid : undefined, program));
    }
  }

  clear(): void {
    this.#clients = [];
    this.#processes.clear();
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
      command: this.#processes.get(client.session)?.command,
      language: this.#processes.get(client.session)?.language,
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
