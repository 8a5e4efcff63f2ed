/**
 * The descriptors that an earlier hub left with a service manager or keeper, and that this process
 * got at its start. Each one can be taken once.
 */
import { acquireIn, releaseAll } from "../../base/scope.js";
import { KEEPER_PROCESS, KEEPER_SOCKET } from "../../keeper/keeper-names.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { ReceivedFd } from "../../os/received-fds.js";
import { SeqpacketListener } from "../../os/seqpacket-listener.js";
import {
  keyOf,
  LISTENER,
  LOCK,
  PASSED_LISTENER,
  parseStoredName,
  type StoredKey,
} from "./stored-names.js";

export class Received {
  /** Descriptors of the manager that nobody has taken. Whoever takes one closes it. */
  readonly stored = new Map<StoredKey, OwnedFd[]>();
  /** The descriptors of each object by index. A missing one leaves a hole. */
  readonly memory = new Map<number, OwnedFd[]>();
  /** Whether the socket's file is the hub's to remove. A socket unit's is not. */
  readonly ownsSocket: boolean;
  /** Pidfds of the processes that held something, by session. */
  readonly #processes = new Map<number, OwnedFd>();
  readonly #others = new Map<string, OwnedFd>();
  #listener: SeqpacketListener | undefined;

  /**
   * Takes over all of them, even if it throws.
   * @throws INVALID_MESSAGE if the listener does not listen
   */
  constructor(fds: readonly ReceivedFd[]) {
    let listener: ReceivedFd | undefined;
    acquireIn((scope) => {
      for (const { fd } of fds) scope.defer(() => fd.close());
      for (const received of fds) {
        const { name, fd } = received;
        const parsed = parseStoredName(name);
        if (parsed?.of === "object") add(this.memory, parsed.id, fd, parsed.index);
        else if (parsed !== undefined) this.#processes.set(parsed.id, fd);
        else if (OTHERS.has(name)) this.#others.set(name, fd);
        // WHY prefer another name: a socket unit passes its own listener, whatever the store has.
        else if (listener === undefined || name !== LISTENER) {
          listener?.fd.close();
          listener = received;
        } else fd.close();
        if (parsed !== undefined) add(this.stored, keyOf(parsed), fd);
        else if (STORED.has(name)) add(this.stored, name, fd);
      }
      if (listener !== undefined) this.#listener = SeqpacketListener.adopt(listener.fd);
    });
    this.ownsSocket = listener === undefined || listener.name === LISTENER;
  }

  get hasLock(): boolean {
    return this.#others.has(LOCK);
  }

  /** The listening socket, owned by the caller. */
  takeListener(): SeqpacketListener | undefined {
    const listener = this.#listener;
    this.#listener = undefined;
    return listener;
  }

  /** The open file with the hub's lock, owned by the caller. */
  takeLock(): OwnedFd | undefined {
    return this.#take(LOCK);
  }

  /** The hub's end of the socket to its keeper, and the keeper's pidfd. */
  takeKeeper(): { readonly socket: OwnedFd; readonly pidfd: OwnedFd } | undefined {
    const [socket, pidfd] = [this.#take(KEEPER_SOCKET), this.#take(KEEPER_PROCESS)];
    if (socket !== undefined && pidfd !== undefined) return { socket, pidfd };
    releaseAll([() => socket?.close(), () => pidfd?.close()]);
    return undefined;
  }

  /** A pidfd of the process behind this session, owned by the caller. */
  takeProcess(session: number): OwnedFd | undefined {
    const pidfd = this.#processes.get(session);
    this.#processes.delete(session);
    return pidfd;
  }

  /**
   * Closes the pidfds that nobody took. Their sessions had ended, and the earlier hub was killed
   * before its keeper dropped them.
   */
  closeProcesses(): void {
    const fds = [...this.#processes.values()];
    this.#processes.clear();
    releaseAll(fds.map((fd) => () => fd.close()));
  }

  close(): void {
    const fds = [...this.memory.values()].flat();
    const all = [...fds, ...this.#processes.values(), ...this.#others.values()];
    this.memory.clear();
    this.#processes.clear();
    this.#others.clear();
    // Missing descriptors leave holes.
    releaseAll([() => this.takeListener()?.close(), ...all.map((fd) => () => fd?.close())]);
  }

  #take(name: string): OwnedFd | undefined {
    const fd = this.#others.get(name);
    this.#others.delete(name);
    return fd;
  }
}

const OTHERS: ReadonlySet<string> = new Set([LOCK, KEEPER_SOCKET, KEEPER_PROCESS]);
const STORED: ReadonlySet<string> = new Set([LOCK, LISTENER, PASSED_LISTENER]);

function add<Key>(to: Map<Key, OwnedFd[]>, key: Key, fd: OwnedFd, index?: number): void {
  const fds = to.get(key) ?? [];
  fds[index ?? fds.length] = fd;
  to.set(key, fds);
}
