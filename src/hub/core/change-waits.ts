/** Requests for changes that wait for the next one. A session has one at a time. */
import { PROTOCOL_VERSION } from "../../wire/messages.js";
import { type Guarded, mayOpen } from "./access.js";
import type { HubPorts } from "./ports.js";
import type { Session } from "./sessions.js";

interface Waiting {
  readonly request: number;
  readonly since: number;
}

export class ChangeWaits<Fd> {
  readonly #ports: Pick<HubPorts<Fd>, "reply">;
  readonly #bySession = new Map<Session<Fd>, Waiting>();

  constructor(ports: Pick<HubPorts<Fd>, "reply">) {
    this.#ports = ports;
  }

  /** Answers an earlier request of the session. */
  add(session: Session<Fd>, waiting: Waiting): void {
    this.#answer(session);
    this.#bySession.set(session, waiting);
  }

  /** An object changed, or its name ended. */
  changed(object: Guarded): void {
    for (const session of this.#bySession.keys())
      if (mayOpen(object, session.peer, "read")) this.#answer(session);
  }

  /** The client reads no more replies. It asks again after it came back. */
  dropSession(session: Session<Fd>): void {
    this.#bySession.delete(session);
  }

  clear(): void {
    this.#bySession.clear();
  }

  /** WHY without the change: the table is in the middle of it. The client asks again at once. */
  #answer(session: Session<Fd>): void {
    const waiting = this.#bySession.get(session);
    if (waiting === undefined) return;
    this.#bySession.delete(session);
    const { request: id, since: next } = waiting;
    const result = { objects: [], ended: [], next, more: true, reset: false };
    const reply = { v: PROTOCOL_VERSION, id, ok: true, result } as const;
    this.#ports.reply(session.connection.id, reply, []);
  }
}
