/**
 * Drains that wait: owners who asked to be told when nobody else holds their object any more. An
 * owner has one drain for an object at a time.
 */
import { CudaIpcError } from "../../base/errors.js";
import { PROTOCOL_VERSION, type Reply } from "../../wire/messages.js";
import type { Lease, SharedObject } from "../objects/shared-object.js";
import { errorReply } from "./error-reply.js";
import type { HubPorts } from "./ports.js";
import type { Session } from "./sessions.js";

type Requests<Fd> = Map<SharedObject<Fd>, number>;

export class Drains<Fd> {
  readonly #ports: Pick<HubPorts<Fd>, "reply">;
  /** The number of the request by the owner's session and the object. */
  readonly #bySession = new Map<Session<Fd>, Requests<Fd>>();

  constructor(ports: Pick<HubPorts<Fd>, "reply">) {
    this.#ports = ports;
  }

  /** Replaces an earlier drain of the object. */
  add(session: Session<Fd>, request: number, object: SharedObject<Fd>): void {
    this.#abort(session, object, "its owner asked again");
    const requests: Requests<Fd> = this.#bySession.get(session) ?? new Map();
    this.#bySession.set(session, requests.set(object, request));
  }

  leaseEnded({ object, kind, session }: Lease<Fd>): void {
    const { owner } = object.leases;
    if (kind === "owner") this.#abort(session, object, "the owner's lease ended before the others");
    else if (owner !== undefined && isDrained(object)) this.#answer(owner.session, object);
  }

  /** The client reads no more replies. It asks again after it came back. */
  dropSession(session: Session<Fd>): void {
    this.#bySession.delete(session);
  }

  clear(): void {
    this.#bySession.clear();
  }

  #answer(session: Session<Fd>, object: SharedObject<Fd>): void {
    const id = this.#take(session, object);
    if (id !== undefined) this.#reply(session, { v: PROTOCOL_VERSION, id, ok: true, result: {} });
  }

  #abort(session: Session<Fd>, object: SharedObject<Fd>, found: string): void {
    const id = this.#take(session, object);
    const message = `Cannot drain "${object.name}": ${found}`;
    if (id !== undefined)
      this.#reply(session, errorReply(id, new CudaIpcError("ABORTED", message)));
  }

  #take(session: Session<Fd>, object: SharedObject<Fd>): number | undefined {
    const requests = this.#bySession.get(session);
    const id = requests?.get(object);
    requests?.delete(object);
    if (requests?.size === 0) this.#bySession.delete(session);
    return id;
  }

  #reply(session: Session<Fd>, reply: Reply): void {
    this.#ports.reply(session.connection.id, reply, []);
  }
}

/** Whether the owner's lease is the only one. */
export function isDrained<Fd>({ leases }: SharedObject<Fd>): boolean {
  return leases.size === 1 && leases.owner !== undefined;
}
