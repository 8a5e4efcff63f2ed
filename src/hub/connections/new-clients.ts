/**
 * Accepted connections that are not admitted yet. The connections of each user wait in a queue of
 * their own and are admitted in that user's turns. Accepting them costs the user time as well.
 */
import { limits } from "../../base/limits.js";
import { releaseAll } from "../../base/scope.js";
import type { SeqpacketSocket } from "../../os/seqpacket.js";
import type { SeqpacketListener } from "../../os/seqpacket-listener.js";
import type { Job, UserTurns } from "./user-turns.js";

/** How long the hub accepts connections in one turn of the event loop. */
const SLICE_MS = 0.5;

export interface NewClientsHandler {
  /** Admits the client or refuses it. Owns the socket. */
  admit(socket: SeqpacketSocket): void;
  /** Hangs up without a word. Owns the socket. */
  hangUp(socket: SeqpacketSocket, uid: number): void;
  /** This user has more waiting clients than the hub keeps. */
  onCrowd(uid: number): void;
}

interface Line extends Job {
  readonly uid: number;
  readonly sockets: SeqpacketSocket[];
}

export class NewClients {
  readonly #turns: UserTurns;
  readonly #handler: NewClientsHandler;
  readonly #max: number;
  readonly #nowMs: () => number;
  readonly #lines = new Map<number, Line>();
  #count = 0;

  /** @param openFilesMax of this process; a few of them are for waiting clients */
  constructor(
    turns: UserTurns,
    openFilesMax: number,
    handler: NewClientsHandler,
    nowMs = () => performance.now(),
  ) {
    this.#nowMs = nowMs;
    this.#max = Math.min(limits.newClientsMax, Math.max(1, Math.floor(openFilesMax / 32)));
    this.#turns = turns;
    this.#handler = handler;
  }

  /**
   * Accepts some of the clients in the backlog.
   * @returns false if the backlog is empty
   */
  acceptFrom(listener: Pick<SeqpacketListener, "tryAccept">): boolean {
    const begun = new Set<Line>();
    let nowMs = this.#nowMs();
    const endMs = nowMs + SLICE_MS;
    try {
      for (let count = 0; count < limits.hubAcceptsPerTurn && nowMs < endMs; count += 1) {
        const socket = listener.tryAccept();
        if (socket === undefined) return false;
        const line = this.#add(socket);
        begun.add(line);
        const thenMs = nowMs;
        nowMs = this.#nowMs();
        this.#turns.charge(line.uid, nowMs - thenMs);
      }
      return true;
    } finally {
      // WHY last: a turn takes its user's time, and the connections behind must be accepted first.
      for (const line of begun) this.#turns.ready(line.uid, line);
    }
  }

  /** Hangs up on all waiting clients. */
  close(): void {
    const lines = [...this.#lines.values()];
    this.#lines.clear();
    const releases = lines.flatMap(({ uid, sockets }) =>
      sockets.splice(0).map((socket) => () => this.#handler.hangUp(socket, uid)),
    );
    releaseAll(releases);
  }

  #add(socket: SeqpacketSocket): Line {
    const { uid } = socket.peerCredentials();
    const line = this.#lines.get(uid) ?? this.#begin(uid);
    line.sockets.push(socket);
    this.#count += 1;
    if (this.#count > this.#max) this.#shortenLongest();
    return line;
  }

  #begin(uid: number): Line {
    const sockets: SeqpacketSocket[] = [];
    const line: Line = { uid, sockets, step: () => this.#admitFirst(line) };
    this.#lines.set(uid, line);
    return line;
  }

  #admitFirst({ uid, sockets }: Line): boolean {
    const socket = sockets.shift();
    if (sockets.length === 0) this.#lines.delete(uid);
    if (socket === undefined) return false;
    this.#count -= 1;
    this.#handler.admit(socket);
    return sockets.length > 0;
  }

  /**
   * Hangs up on the newest client of the longest queue: the user who connects most waits longest.
   */
  #shortenLongest(): void {
    let longest: Line | undefined;
    for (const line of this.#lines.values()) {
      if (longest === undefined || line.sockets.length > longest.sockets.length) longest = line;
    }
    const socket = longest?.sockets.pop();
    if (longest === undefined || socket === undefined) return;
    this.#count -= 1;
    this.#handler.onCrowd(longest.uid);
    this.#handler.hangUp(socket, longest.uid);
  }
}
