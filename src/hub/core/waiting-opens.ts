/** Opens that wait for a name to be published. Found by name, and by request to cancel them. */
import { CudaIpcError } from "../../base/errors.js";
import type { RequestOf } from "../../wire/messages.js";
import type { SessionId } from "./ports.js";
import type { Session } from "./sessions.js";

export interface WaitingOpen<Fd> {
  readonly session: Session<Fd>;
  readonly request: RequestOf<"open">;
}

const ONE = { waitingOpens: 1 };

export class WaitingOpens<Fd> {
  readonly #byName = new Map<string, Map<Session<Fd>, Set<WaitingOpen<Fd>>>>();
  readonly #bySession = new Map<SessionId, Map<number, WaitingOpen<Fd>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @throws LIMIT_EXCEEDED, INVALID_MESSAGE if a request with this id already waits */
  add({ session, request }: WaitingOpen<Fd>): void {
    if (this.#bySession.get(session.id)?.has(request.id)) {
      const message = `Cannot open "${request.name}": request ${request.id} already waits`;
      throw new CudaIpcError("INVALID_MESSAGE", message);
    }
    session.account.charge(`wait for "${request.name}"`, ONE);
    this.#add({ session, request });
  }

  /** Removes and returns the wait of one request. */
  take(session: SessionId, requestId: number): WaitingOpen<Fd> | undefined {
    const waiting = this.#bySession.get(session)?.get(requestId);
    if (waiting !== undefined) this.#delete(waiting);
    return waiting;
  }

  /** The sessions that wait for a name, oldest first. */
  sessionsFor(name: string): readonly Session<Fd>[] {
    return [...(this.#byName.get(name)?.keys() ?? [])];
  }

  /** Removes and returns the first request of a session that waits for a name. */
  takeFirst(session: Session<Fd>, name: string): RequestOf<"open"> | undefined {
    for (const waiting of this.#byName.get(name)?.get(session) ?? []) {
      this.#delete(waiting);
      return waiting.request;
    }
    return undefined;
  }

  dropSession(session: SessionId): void {
    for (const waiting of [...(this.#bySession.get(session)?.values() ?? [])])
      this.#delete(waiting);
  }

  clear(): void {
    this.#byName.clear();
    this.#bySession.clear();
    this.#size = 0;
  }

  #add(waiting: WaitingOpen<Fd>): void {
    const { session, request } = waiting;
    const ofSession = this.#bySession.get(session.id) ?? new Map<number, WaitingOpen<Fd>>();
    ofSession.set(request.id, waiting);
    this.#bySession.set(session.id, ofSession);
    const ofName = this.#byName.get(request.name) ?? new Map<Session<Fd>, Set<WaitingOpen<Fd>>>();
    ofName.set(session, (ofName.get(session) ?? new Set<WaitingOpen<Fd>>()).add(waiting));
    this.#byName.set(request.name, ofName);
    this.#size += 1;
  }

  #delete(waiting: WaitingOpen<Fd>): void {
    const { session, request } = waiting;
    const ofSession = this.#bySession.get(session.id);
    ofSession?.delete(request.id);
    if (ofSession?.size === 0) this.#bySession.delete(session.id);
    const ofName = this.#byName.get(request.name);
    ofName?.get(session)?.delete(waiting);
    if (ofName?.get(session)?.size === 0) ofName.delete(session);
    if (ofName?.size === 0) this.#byName.delete(request.name);
    this.#size -= 1;
    session.account.refund(ONE);
  }
}
