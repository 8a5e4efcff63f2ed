/**
 * Ends sessions, and leases that a client did not name when it came back. A session may hold
 * 100,000 leases, so they end a few at a time, in turns of the session's user. After a crash in the
 * middle the next hub goes on with the rest.
 */
import { releaseAll } from "../../base/scope.js";
import type { Lease } from "../objects/shared-object.js";
import { dropWaits, type Held } from "./held.js";
import type { HubPorts } from "./ports.js";
import type { Connection, Session } from "./sessions.js";

/** Leases that end in one turn. Each one writes to the journal. */
const LEASES_PER_STEP = 16;
/** No further lease ends in a turn once their objects have this many descriptors to close. */
const FDS_PER_STEP = 64;

export class SessionEnd<Fd> {
  readonly #ports: Pick<HubPorts<Fd>, "later">;
  readonly #held: Held<Fd>;

  constructor(ports: Pick<HubPorts<Fd>, "later">, held: Held<Fd>) {
    this.#ports = ports;
    this.#held = held;
  }

  /** Ends a connection and its session, because its process can no longer come back. */
  end(connection: Connection<Fd>): void {
    const { sessions } = this.#held;
    sessions.detach(connection);
    if (connection.session === undefined) sessions.end(connection);
    else this.endSession(connection.session, () => {});
  }

  /** Ends a connection whose session holds nothing. */
  endIfEmpty(connection: Connection<Fd>): void {
    const { session } = connection;
    if (session === undefined || session.leases.size === 0) this.end(connection);
  }

  /** @param done called when nothing is left, just before the connection is forgotten */
  endSession(session: Session<Fd>, done: () => void): void {
    if (session.ending) return;
    session.ending = true;
    const { sessions, objects } = this.#held;
    dropWaits(session, this.#held);
    const step = () => {
      this.#release(session.leases.keys(), session);
      return session.leases.size > 0;
    };
    this.#inSteps(session.connection, step, () => {
      objects.sessionEnded(session);
      done();
      sessions.end(session.connection);
    });
  }

  /**
   * Takes everything but its leases from a session. Its process lives and may go on using memory,
   * so leases wait for its end. A reader loses its seat at once, so that no writer waits for it.
   */
  disconnect(session: Session<Fd>): void {
    session.disconnected = true;
    const { objects, waiting } = this.#held;
    waiting.dropSession(session.id);
    const readers = [...session.leases.values()].filter(({ seat }) => seat !== undefined);
    const step = () => {
      const some = readers.splice(0, LEASES_PER_STEP);
      releaseAll(some.map((lease) => () => objects.endReader(lease)));
      return readers.length > 0;
    };
    this.#inSteps(session.connection, step, () => {});
  }

  /** Releases the leases that a resumed session has not restored. */
  endUnrestored(session: Session<Fd>, done: () => void): void {
    const step = () => {
      // Read in each step: another connection of the process may resume the session meanwhile.
      const { unrestored } = session;
      if (unrestored !== undefined) this.#release(unrestored, session);
      if (unrestored !== undefined && unrestored.size > 0) return true;
      session.unrestored = undefined;
      return false;
    };
    this.#inSteps(session.connection, step, done);
  }

  #release(ids: Iterable<number>, session: Session<Fd>): void {
    const some: Lease<Fd>[] = [];
    let fds = 0;
    for (const id of ids) {
      const lease = session.leases.get(id);
      if (lease === undefined) session.unrestored?.delete(id);
      else {
        some.push(lease);
        fds += lease.object.memory?.fds.length ?? 0;
        if (some.length === LEASES_PER_STEP || fds >= FDS_PER_STEP) break;
      }
    }
    releaseAll(some.map((lease) => () => this.#held.objects.release(lease)));
  }

  /** Runs the first step at once. For most sessions it is the only one. */
  #inSteps({ id, peer }: Connection<Fd>, step: () => boolean, done: () => void): void {
    const next = () => {
      if (step()) return true;
      done();
      return false;
    };
    if (next()) this.#ports.later(id, peer.uid, next);
  }
}
