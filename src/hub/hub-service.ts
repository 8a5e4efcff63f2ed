/**
 * The process that starts the next hub if this one ends, and has for it what would be lost otherwise: systemd, or a keeper of the
 * hub's own. What an earlier hub left there comes back here.
 * docs: sd_notify(3), sd_listen_fds(3), "File Descriptor Store".
 */
import { releaseAll } from "../base/scope.js";
import { reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { type Environment, keptFds, receivedFds } from "../os/received-fds.js";
import type { SeqpacketListener } from "../os/seqpacket.js";
import { ServiceManager } from "../os/service-manager.js";
import { describeError } from "./client-connections.js";
import { FdStore } from "./fd-store.js";
import { HubKeeper } from "./hub-keeper.js";
import type { HubState, ObjectRecord } from "./hub-records.js";
import { matchingMemory } from "./matching-memory.js";
import { Received } from "./received.js";
import type { ObjectMemory } from "./shared-object.js";
import { LISTENER, LOCK, PASSED_LISTENER, type StoredKey } from "./stored-names.js";

const STATUS_PAUSE_MS = 1000;
const RETRY_MS = 1000;

type Log = (line: string) => void;

export interface HubServiceOptions {
  readonly log?: Log;
  readonly env?: Environment;
  /** How to start this hub again, for a keeper of its own; without it the hub has none. */
  readonly command?: readonly string[] | undefined;
}

export class HubService {
  readonly #manager: ServiceManager | undefined;
  readonly #keeper: HubKeeper | undefined;
  readonly #store: FdStore;
  readonly #log: Log;
  readonly #received: Received;
  #statusTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #onSettled: (key: StoredKey) => void = () => {};

  private constructor(received: Received, manager: ServiceManager | undefined, options: HubServiceOptions) {
    const { log = () => {}, command } = options;
    this.#log = log;
    this.#received = received;
    this.#manager = manager;
    this.#store = new FdStore({
      log,
      onSettled: (key) => this.#onSettled(key),
      onProgress: () => this.#keeper?.onProgress(),
      onFailure: () => this.#onFailure(),
    });
    if (manager === undefined && command !== undefined)
      this.#keeper = new HubKeeper({ command, store: this.#store, log });
  }

  /**
   * Of the manager or keeper that started this process. Returns undefined if none did and this hub is to have none. Once, at
   * the start of a process.
   * @throws INVALID_MESSAGE if what was passed is not understood
   */
  static ofProcess(options: HubServiceOptions = {}): HubService | undefined {
    const { env = process.env, command } = options;
    const manager = ServiceManager.fromEnv(env);
    const fds = [...keptFds(env), ...receivedFds(env)];
    if (manager === undefined && command === undefined && fds.length === 0) return undefined;
    const service = new HubService(new Received(fds), manager, options);
    service.#inherit();
    return service;
  }

  /** Whether an earlier hub of the same service left something to this one. */
  get isSuccessor(): boolean {
    return this.#received.hasLock;
  }

  /** Whether a service manager runs this hub: it ends the hub by a signal, and starts it again. */
  get isManaged(): boolean {
    return this.#manager !== undefined;
  }

  /** Whether somebody starts the next hub if this one ends. */
  get restarts(): boolean {
    return this.#manager !== undefined || this.#keeper?.pid !== undefined;
  }

  /** Undefined without a keeper. */
  get keeper(): { readonly pid: number; readonly descriptors: number; readonly pending: number } | undefined {
    const pid = this.#keeper?.pid;
    return pid === undefined ? undefined : { pid, descriptors: this.#store.count, pending: this.#store.pending };
  }

  get ownsSocket(): boolean {
    return this.#received.ownsSocket;
  }

  /** The socket to listen on, the caller's from here on; undefined if none was passed. */
  takeListener(): SeqpacketListener | undefined {
    return this.#received.takeListener();
  }

  /** The lock of the earlier hub, the caller's from here on. */
  takeLock(): OwnedFd | undefined {
    return this.#received.takeLock();
  }

  /** A pidfd of the process that held something under this session. */
  takeProcess(session: number): OwnedFd | undefined {
    return this.#received.takeProcess(session);
  }

  /** What was kept of these objects' memory, the caller's from here on. What belongs to none of them is let go. */
  takeMemory(objects: HubState["objects"]): Map<number, ObjectMemory<OwnedFd>> {
    const found = new Map<number, ObjectMemory<OwnedFd>>();
    for (const [object, fds] of this.#received.memory) {
      const record = objects.get(object)?.record;
      const memory = record === undefined ? undefined : this.#match(record, fds);
      if (memory !== undefined) found.set(object, memory);
      else releaseAll(fds.filter(isThere).map((fd) => () => fd.close()));
    }
    this.#received.memory.clear();
    return found;
  }

  /**
   * From here on everything is stored, also what was said so far. What an earlier hub had stored beside that is let go.
   * @param onSettled see FdStoreEvents
   */
  begin(socketPath: string, own: HubDescriptors, onSettled: (key: StoredKey) => void): void {
    this.#onSettled = onSettled;
    this.#store.store(LOCK, [own.lock]);
    // WHY not one of a socket unit: systemd passes it by itself.
    if (this.#keeper !== undefined && !this.ownsSocket) this.#store.store(PASSED_LISTENER, [own.listener.fd]);
    else if (this.ownsSocket) this.#store.store(LISTENER, [own.listener.fd]);
    this.#store.dropInherited();
    if (this.#manager !== undefined) this.#store.begin(this.#manager);
    this.#keeper?.begin(socketPath);
  }

  /** The hub listens. */
  ready(status: () => string): void {
    const manager = this.#manager;
    this.#tell(() => (manager ?? this.#keeper)?.notify(`READY=1\nSTATUS=${status()}`));
    if (manager === undefined) return;
    let told = status();
    this.#statusTimer = setInterval(() => {
      const now = status();
      if (now !== told) this.#tell(() => manager.notify(`STATUS=${now}`));
      told = now;
    }, STATUS_PAUSE_MS);
    this.#statusTimer.unref();
  }

  /** These descriptors are kept for the next hub until `remove`; they stay the caller's. */
  store(key: StoredKey, fds: readonly OwnedFd[]): void {
    this.#store.store(key, fds);
    this.#keeper?.expectProgress();
  }

  remove(key: StoredKey): void {
    this.#store.remove(key);
  }

  /** Whether the next hub would have it. True also if there is nobody at the moment who could keep it. */
  isKept(key: StoredKey): boolean {
    return !this.restarts || this.#store.has(key);
  }

  /** The hub ends for good. */
  stopping(): void {
    clearInterval(this.#statusTimer);
    this.#tell(() => this.#manager?.notify("STOPPING=1"));
    this.#tell(() => this.#keeper?.end());
  }

  /** Closes what was not taken. What the manager or keeper has, it keeps. */
  close(): void {
    clearInterval(this.#statusTimer);
    clearTimeout(this.#retryTimer);
    releaseAll([() => this.#store.close(), () => this.#keeper?.close(), () => this.#received.close()]);
  }

  /** A keeper that cannot be told is replaced; a service manager comes back. */
  #onFailure(): void {
    this.#keeper?.replace();
    const manager = this.#manager;
    if (manager === undefined) return;
    this.#retryTimer = setTimeout(() => this.#store.begin(manager), RETRY_MS);
    this.#retryTimer.unref();
  }

  #inherit(): void {
    for (const [key, fds] of this.#received.stored) this.#store.inherit(key, fds);
    this.#received.stored.clear();
    const keeper = this.#received.takeKeeper();
    if (keeper !== undefined) this.#keeper?.adopt(keeper.socket, keeper.pidfd);
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

/** What a hub has beside objects and clients, and the next one needs. */
export interface HubDescriptors {
  readonly lock: OwnedFd;
  readonly listener: SeqpacketListener;
}

/** WHY asked: numbers that are missing leave holes. */
function isThere(fd: OwnedFd | undefined): fd is OwnedFd {
  return fd !== undefined;
}
