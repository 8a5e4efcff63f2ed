/** The opens that wait for a name to be published, found by name when it is and by request when they are cancelled. */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { RequestOf } from "../wire/messages.js";
import type { SessionId } from "./ports.js";

export interface WaitingOpen {
  readonly session: SessionId;
  readonly request: RequestOf<"open">;
}

export class WaitingOpens {
  readonly #byName = new Map<string, Set<WaitingOpen>>();
  readonly #bySession = new Map<SessionId, Map<number, WaitingOpen>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** @throws LIMIT_EXCEEDED, INVALID_MESSAGE where the request's id is already waiting */
  add(waiting: WaitingOpen): void {
    const { name, id } = waiting.request;
    const ofSession = this.#bySession.get(waiting.session) ?? new Map<number, WaitingOpen>();
    if (ofSession.has(id))
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot open "${name}": request ${id} already waits`);
    if (ofSession.size >= limits.waitingOpensPerClientMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot open "${name}": ${ofSession.size} opens of this client wait already (waitingOpensPerClientMax)`,
      );
    }
    ofSession.set(id, waiting);
    this.#bySession.set(waiting.session, ofSession);
    const ofName = this.#byName.get(name) ?? new Set<WaitingOpen>();
    ofName.add(waiting);
    this.#byName.set(name, ofName);
    this.#size += 1;
  }

  /** Removes and returns the wait of one request, if there is one. */
  take(session: SessionId, requestId: number): WaitingOpen | undefined {
    const waiting = this.#bySession.get(session)?.get(requestId);
    if (waiting !== undefined) this.#delete(waiting);
    return waiting;
  }

  /** Removes and returns all waits for a name, in the order in which they came. */
  takeName(name: string): WaitingOpen[] {
    const all = [...(this.#byName.get(name) ?? [])];
    for (const waiting of all) this.#delete(waiting);
    return all;
  }

  dropSession(session: SessionId): void {
    for (const waiting of [...(this.#bySession.get(session)?.values() ?? [])]) this.#delete(waiting);
  }

  #delete(waiting: WaitingOpen): void {
    const { session, request } = waiting;
    const ofSession = this.#bySession.get(session);
    ofSession?.delete(request.id);
    if (ofSession?.size === 0) this.#bySession.delete(session);
    const ofName = this.#byName.get(request.name);
    ofName?.delete(waiting);
    if (ofName?.size === 0) this.#byName.delete(request.name);
    this.#size -= 1;
  }
}
