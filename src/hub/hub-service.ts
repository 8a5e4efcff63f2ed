/**
 * A hub that a service manager (systemd) runs: what it was started with, what it has the manager keep, and what it says of itself.
 * docs: sd_notify(3), sd_listen_fds(3), "File Descriptor Store".
 */
import { acquireIn, releaseAll } from "../base/scope.js";
import { reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { SeqpacketListener } from "../os/seqpacket.js";
import { receivedFds, ServiceManager } from "../os/service-manager.js";
import { describeError } from "./client-connections.js";
import { FdStore, parseStoredName } from "./fd-store.js";
import type { HubState, ObjectRecord } from "./hub-records.js";
import { matchingMemory } from "./matching-memory.js";
import type { ObjectMemory } from "./shared-object.js";

/** What the hub calls its own listening socket in the store. */
const LISTENER = "listener";
const STATUS_PAUSE_MS = 1000;

type Log = (line: string) => void;
type Environment = Record<string, string | undefined>;

export class HubService {
  readonly #manager: ServiceManager | undefined;
  readonly #store: FdStore | undefined;
  readonly #log: Log;
  readonly #memory: Map<number, OwnedFd[]>;
  #listener: SeqpacketListener | undefined;
  #ownsSocket: boolean;
  #statusTimer: NodeJS.Timeout | undefined;

  private constructor(
    manager: ServiceManager | undefined,
    received: { listener: SeqpacketListener | undefined; ownsSocket: boolean; memory: Map<number, OwnedFd[]> },
    log: Log,
  ) {
    this.#manager = manager;
    this.#store = manager === undefined ? undefined : new FdStore(manager, log);
    this.#log = log;
    this.#listener = received.listener;
    this.#ownsSocket = received.ownsSocket;
    this.#memory = received.memory;
  }

  /**
   * Of the manager that started this process; undefined where none did. Once, at the start of a process.
   * @throws INVALID_MESSAGE where what it passed is not understood
   */
  static fromEnv(log: Log = () => {}, env: Environment = process.env): HubService | undefined {
    const manager = ServiceManager.fromEnv(env);
    const received = receivedFds(env);
    if (manager === undefined && received.length === 0) return undefined;
    return acquireIn((scope) => {
      for (const { fd } of received) scope.defer(() => fd.close());
      const memory = new Map<number, OwnedFd[]>();
      let [listener, ownsSocket]: [SeqpacketListener | undefined, boolean] = [undefined, true];
      for (const { name, fd } of received) {
        const stored = parseStoredName(name);
        if (stored !== undefined) {
          const fds = memory.get(stored.object) ?? [];
          fds[stored.index] = fd;
          memory.set(stored.object, fds);
        } else if (listener === undefined || name !== LISTENER) {
          listener?.close();
          listener = SeqpacketListener.adopt(fd);
          ownsSocket = name === LISTENER;
        } else {
          fd.close();
        }
      }
      return new HubService(manager, { listener, ownsSocket, memory }, log);
    });
  }

  /** Whether the next process of the service gets what this one leaves. */
  get restarts(): boolean {
    return this.#manager !== undefined;
  }

  /** Whether the socket's file is the hub's to remove, and not a socket unit's. */
  get ownsSocket(): boolean {
    return this.#ownsSocket;
  }

  /** The socket to listen on, the caller's from here on; undefined where none was passed. */
  takeListener(): SeqpacketListener | undefined {
    const listener = this.#listener;
    this.#listener = undefined;
    return listener;
  }

  /** What was kept of these objects' memory, the caller's from here on. What belongs to none of them is let go. */
  takeMemory(objects: HubState["objects"]): Map<number, ObjectMemory<OwnedFd>> {
    const found = new Map<number, ObjectMemory<OwnedFd>>();
    for (const [object, fds] of this.#memory) {
      this.#store?.inherit(object, fds.filter(isThere));
      const record = objects.get(object)?.record;
      const memory = record === undefined ? undefined : this.#match(record, fds);
      if (memory !== undefined) {
        found.set(object, memory);
        continue;
      }
      this.#store?.remove(object);
      releaseAll(fds.filter(isThere).map((fd) => () => fd.close()));
    }
    this.#memory.clear();
    return found;
  }

  memoryArrived(object: number, fds: readonly OwnedFd[]): void {
    this.#store?.store(object, fds);
  }

  memoryGone(object: number): void {
    this.#store?.remove(object);
  }

  /** The hub listens. A socket of its own is kept for the next hub too, so that nobody is refused in between. */
  ready(listener: SeqpacketListener, status: () => string): void {
    if (this.#ownsSocket) this.#tell(() => this.#manager?.store(LISTENER, [listener.fd]));
    this.#tell(() => this.#manager?.notify(`READY=1\nSTATUS=${status()}`));
    if (this.#manager === undefined) return;
    let told = status();
    this.#statusTimer = setInterval(() => {
      const now = status();
      if (now !== told) this.#tell(() => this.#manager?.notify(`STATUS=${now}`));
      told = now;
    }, STATUS_PAUSE_MS);
    this.#statusTimer.unref();
  }

  stopping(): void {
    clearInterval(this.#statusTimer);
    this.#tell(() => this.#manager?.notify("STOPPING=1"));
  }

  /** Closes what was not taken. The manager keeps what it has. */
  close(): void {
    clearInterval(this.#statusTimer);
    const fds = [...this.#memory.values()].flat().filter(isThere);
    this.#memory.clear();
    releaseAll([() => this.#store?.close(), () => this.takeListener()?.close(), ...fds.map((fd) => () => fd.close())]);
  }

  #match(record: ObjectRecord, fds: readonly OwnedFd[]): ObjectMemory<OwnedFd> | undefined {
    try {
      if (!fds.every(isThere)) throw new RangeError("one of its descriptors is missing");
      const memory = matchingMemory(`take back "${record.name}"`, record, fds);
      if (!record.writable || memory.writable) return memory;
      const [first, ...rest] = memory.fds;
      const twin = reopenWritable(first);
      if (twin === undefined) return memory;
      first.close();
      return { fds: [twin, ...rest], writable: true };
    } catch (error) {
      this.#log(`the memory of "${record.name}" that was kept is not used: ${describeError(error)}`);
      return undefined;
    }
  }

  #tell(say: () => unknown): void {
    try {
      say();
    } catch (error) {
      this.#log(`could not tell the service manager: ${describeError(error)}`);
    }
  }
}

/** WHY asked: numbers that are missing leave holes. */
function isThere(fd: OwnedFd | undefined): fd is OwnedFd {
  return fd !== undefined;
}
